// SPDX-License-Identifier: Apache-2.0
// What is odd in a config as a whole, as notes under the rules of family C: keys against keys, and what was
// read of them.
#pragma once

#include <string>

#include "locant/spec.h"
#include "spec/config.h"

namespace locant {

/// Keys of a tolerant config against each other (C101), nulls (C104), special ids (C116) and the version of
/// the writer (C117). `outer` is the file, `config` the part of the text model or the same object.
void judge_keys(const Config& outer, const Config& config, const ModelSpec& spec);

/// Lengths, factors and bases of a spec from whatever source: rules C107, C112 and C114, added to its notes.
void judge_lengths(ModelSpec& spec);

/// tokenizer_config.json of that folder against the position table: rule C112. Nothing where there is none.
void judge_tokenizer(const std::string& folder, ModelSpec& spec);

}  // namespace locant
