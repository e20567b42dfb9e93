// SPDX-License-Identifier: Apache-2.0
// `locant inspect`: the facts of a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <vector>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/inspect_report.h"
#include "cli/models.h"
#include "cli/stream.h"
#include "cli/suggest.h"
#include "locant/recipe.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;

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

ModelSpec read_spec(const std::string& path) {
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

}  // namespace

int inspect_command(Args args, Host& host) {
  CommonFlags common;
  std::string model;
  std::string distance;
  std::string capacity;
  FactsQuery query;
  Arguments arguments("inspect",
                      "States the facts of a model: embedding, positions, attention, head and limits.",
                      {"locant inspect rope", "locant inspect path/to/config.json --distance 32768 --json"});
  arguments.positional("MODEL", model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  const CLI::Option* seen =
      arguments.value("--distance", distance, "the plan in force when N tokens have been seen");
  const CLI::Option* opened =
      arguments.value("--capacity", capacity, "the plan of a runtime that was opened for N tokens");
  arguments.value("--recipe", query.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.add_common(common);
  arguments.parse(args);
  if (model.empty())
    throw UsageError("inspect: give a model: a directory, a config.json, a .gguf file or a bundled name");
  if (seen->count() > 0) query.distance = parse_integer({"inspect", "--distance", 0}, distance);
  if (opened->count() > 0) query.capacity = parse_integer({"inspect", "--capacity", 1}, capacity);
  if (!query.recipe.empty()) (void)find_recipe(query.recipe);

  Answer answer(host, common);
  const std::string path = model_file(find_model(model, host));
  const ModelSpec spec = read_spec(path);
  std::error_code error;
  if (fs::is_directory(path, error) || is_gguf(path)) query.weights = path;
  const Facts facts = facts_of(spec, query);
  if (common.json) {
    answer.write_json(inspect_json(facts));
  } else {
    write_inspect_text(facts, answer);
  }
  answer.finish();
  return 0;
}

}  // namespace locant::cli
