// SPDX-License-Identifier: Apache-2.0
// The compiled normalisation rules inside a SentencePiece model: a double-array trie that libsentencepiece
// follows without looking at its bounds. Whoever lets it read an unknown file looks first.
#pragma once

#include <string>
#include <string_view>

namespace locant {

/// Throws FileError when a rule set of this serialised model leads outside itself. Says nothing about the
/// rest of the model: libsentencepiece judges that.
void check_charsmaps(std::string_view model, const std::string& path);

}  // namespace locant
