// SPDX-License-Identifier: Apache-2.0
// Where a MODEL argument leads: a path that exists, else the name of a bundled model.
#pragma once

#include <string>

#include "cli/host.h"
#include "locant/spec.h"

namespace locant::cli {

/// Bundled models lie in models/ beside the executable, in models/ of the folder above (a build in a source
/// tree), or in ../share/locant/models (installed). Throws UsageError.
[[nodiscard]] std::string find_model(const std::string& argument, const Host& host);

/// find_model(), and for a folder without a config the only .gguf file in it. Throws UsageError.
[[nodiscard]] std::string find_model_file(const std::string& argument, const Host& host);

/// What the files at a model's path say, unknown families and keys as notes. Throws as the readers do.
[[nodiscard]] ModelSpec read_model_spec(const std::string& path);

/// Where the weights of a model lie that was read at `path`; "" for a bare config.
[[nodiscard]] std::string weights_beside(const std::string& path, const ModelSpec& spec);

/// What the files at a model's path say and where its weights lie: read_model_spec() and weights_beside().
struct ModelFiles {
  ModelSpec spec;
  std::string weights;
};
[[nodiscard]] ModelFiles read_model_files(const std::string& path);

/// The directory that the tokenizer of a model lies in.
[[nodiscard]] std::string directory_of(const std::string& model_path);

}  // namespace locant::cli
