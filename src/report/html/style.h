// SPDX-License-Identifier: Apache-2.0
// The report's style sheet: light and dark by the reader's choice, and paper.
#pragma once

#include <string_view>

namespace locant::html {

[[nodiscard]] std::string_view style_sheet() noexcept;

}  // namespace locant::html
