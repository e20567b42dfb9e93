// SPDX-License-Identifier: Apache-2.0
// What libsentencepiece follows in a model without looking: the double-array trie of the compiled
// normalisation rules, whose bounds it never checks, and pieces, which it reads up to a NUL. Whoever lets it
// read an unknown file looks first.
#pragma once

#include <string>
#include <string_view>

namespace locant {

/// Throws FileError when a rule set of this serialised model leads outside itself, or a piece holds a NUL.
/// Says nothing about the rest of the model: libsentencepiece judges that.
void check_model_proto(std::string_view model, const std::string& path);

}  // namespace locant
