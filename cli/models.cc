// SPDX-License-Identifier: Apache-2.0
#include "cli/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/suggest.h"

namespace locant::cli {
namespace fs = std::filesystem;

namespace {

/// The .gguf file that a folder holds: the only one, or the first part of the only one.
std::string gguf_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  constexpr std::size_t kPart = std::string_view("-00001-of-00001.gguf").size();
  const auto same_model = [&](const std::string& name) {
    return name.size() > kPart && name.size() == names.front().size() &&
           names.front().find("-00001-of-") == name.size() - kPart &&
           name.compare(0, name.size() - kPart, names.front(), 0, name.size() - kPart) == 0;
  };
  if (names.size() > 1 && !std::all_of(names.begin(), names.end(), same_model)) {
    throw UsageError(fmt::format("model: {} holds {} .gguf files, name one of them: {}, {}{}",
                                 in_quotes(folder.string()), names.size(), in_quotes(names[0]),
                                 in_quotes(names[1]), names.size() > 2 ? ", ..." : ""));
  }
  return names.empty() ? std::string() : (folder / names.front()).string();
}

/// A folder stands for its .gguf file where it has no config.
std::string model_file(const std::string& path) {
  std::error_code error;
  const fs::path folder(path);
  if (!fs::is_directory(folder, error)) return path;
  for (const char* const config : {"config.json", "params.json"}) {
    if (fs::exists(folder / config, error)) return path;
  }
  const std::string file = gguf_in(folder);
  return file.empty() ? path : file;
}

bool is_gguf(const std::string& path) {
  return fs::path(path).extension() == ".gguf";
}

}  // namespace

std::string find_model(const std::string& argument, const Host& host) {
  std::error_code error;
  if (fs::exists(argument, error)) return argument;
  const std::vector<std::string> bundled{"rope", "alibi", "learned", "sinusoidal", "rope-yarn"};
  if (std::find(bundled.begin(), bundled.end(), argument) == bundled.end()) {
    throw UsageError(fmt::format("model: {} is no path that exists and no bundled model ({}){}",
                                 in_quotes(argument), fmt::join(bundled, ", "),
                                 did_you_mean(argument, bundled)));
  }
  const fs::path folder = fs::path(host.executable()).parent_path();
  std::vector<std::string> places;
  for (const char* place : {"models", "../models", "../share/locant/models"}) {
    const fs::path candidate = (folder / place / argument).lexically_normal();
    if (fs::exists(candidate / "config.json", error)) return candidate.string();
    places.push_back(candidate.string());
  }
  throw UsageError(fmt::format("model: the bundled model {} is not there, looked for {}", argument,
                               fmt::join(places, ", ")));
}

std::string directory_of(const std::string& model_path) {
  std::error_code error;
  if (fs::is_directory(model_path, error)) return model_path;
  const fs::path parent = fs::path(model_path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string find_model_file(const std::string& argument, const Host& host) {
  return model_file(find_model(argument, host));
}

ModelSpec read_model_spec(const std::string& path) {
  std::error_code error;
  const fs::path file(path);
  const bool folder = fs::is_directory(file, error);
  if (file.filename() == "params.json") return read_meta_params(path);
  if (folder && !fs::exists(file / "config.json", error) && fs::exists(file / "params.json", error))
    return read_meta_params(path);
  if (!folder && file.extension() == ".bin") return read_llama2c(path);
  if (!folder && is_gguf(path)) return read_gguf(path);
  return read_hf_config(path, Reading::facts);
}

std::string weights_beside(const std::string& path, const ModelSpec& spec) {
  std::error_code error;
  return fs::is_directory(path, error) || spec.format == "gguf" ? path : std::string();
}

ModelFiles read_model_files(const std::string& path) {
  ModelFiles files{.spec = read_model_spec(path), .weights = {}};
  files.weights = weights_beside(path, files.spec);
  return files;
}

}  // namespace locant::cli
