// SPDX-License-Identifier: Apache-2.0
// Where a MODEL argument leads: a path that exists, else the name of a bundled model.
#pragma once

#include <string>

#include "cli/host.h"

namespace locant::cli {

/// Bundled models lie in models/ beside the executable, in models/ of the folder above (a build in a source
/// tree), or in ../share/locant/models (installed). Throws UsageError.
[[nodiscard]] std::string find_model(const std::string& argument, const Host& host);

/// The directory that the tokenizer of a model lies in.
[[nodiscard]] std::string directory_of(const std::string& model_path);

}  // namespace locant::cli
