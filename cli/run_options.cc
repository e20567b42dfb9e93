// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace locant::cli {
namespace {

void require_distinct_outputs(const RunOptions& options) {
  std::set<std::string> seen;
  for (const std::string* path : {&options.common.output, &options.logits_file, &options.trace_file}) {
    if (!path->empty() && !seen.insert(*path).second) {
      throw UsageError(fmt::format("run: two answers would be written to {}", in_quotes(*path)));
    }
  }
}

WeightStorage weight_storage(const std::string& word) {
  require_one_of("run: --weights", word, {"as-stored", "f32", "f16", "bf16"});
  if (word == "f32") return WeightStorage::f32;
  if (word == "f16") return WeightStorage::f16;
  return word == "bf16" ? WeightStorage::bf16 : WeightStorage::as_stored;
}

DType cache_dtype(const std::string& word) {
  require_one_of("run: --cache", word, {"f32", "f16", "bf16"});
  if (word == "f16") return DType::f16;
  return word == "bf16" ? DType::bf16 : DType::f32;
}

}  // namespace

bool PromptFlags::given() const noexcept {
  return !texts.empty() || !text_file.empty() || !ids.empty() || !ids_file.empty();
}

void PromptFlags::add_to(Arguments& arguments) {
  arguments.values("--text", texts, "text of a row; again for more rows")->type_name("S");
  arguments.value("--text-file", text_file, "text of one row, - = standard input; a last newline is dropped")
      ->type_name("F");
  arguments.values("--ids", ids, "token ids of a row, 1,2,3; again for more rows")->type_name("IDS");
  arguments.value("--ids-file", ids_file, "token ids as .npy, [T] or [B,T]")->type_name("F");
}

void PromptFlags::require_one_kind(std::string_view command) const {
  std::vector<std::string_view> kinds;
  if (!texts.empty()) kinds.emplace_back("--text");
  if (!text_file.empty()) kinds.emplace_back("--text-file");
  if (!ids.empty()) kinds.emplace_back("--ids");
  if (!ids_file.empty()) kinds.emplace_back("--ids-file");
  if (kinds.size() > 1)
    throw UsageError(fmt::format("{}: give one kind of prompt, got {}", command, fmt::join(kinds, " and ")));
}

RunOptions read_run_options(Args args) {
  RunOptions options;
  std::string pad = "left";
  std::string start = "0";
  std::string tokens = "0";
  std::string top = "5";
  std::string weights = "as-stored";
  std::string cache = "f32";

  Arguments arguments("run", "Runs a model: text or ids -> logits, the next tokens, a greedy continuation.",
                      {"locant run rope --text \"It is a truth\" --continue 40",
                       "locant run path/to/model --ids 1,2,3 --ids 4,5 --json"});
  arguments.positional("MODEL", options.model, "Hugging Face directory or a bundled model (rope)");
  options.prompt.add_to(arguments);
  arguments
      .value("--pad", pad,
             "side on which --positions, --logits and --trace pad uneven rows: left or right (left)")
      ->type_name("SIDE");
  const CLI::Option* positions = arguments.value("--positions", options.positions_file,
                                                 "position ids as .npy, [T], [B,T] or [axes,B,T]");
  const CLI::Option* first =
      arguments.value("--start", start, "position of the first token (0)")->type_name("N");
  arguments.value("--continue", tokens, "tokens to add, greedy (0)")->type_name("N");
  arguments.value("--top", top, "candidates shown for the next token (5)")->type_name("K");
  arguments
      .value("--logits", options.logits_file,
             "write the prompt's logits: .npy f32 [B,T,V], [T,V] for one row")
      ->type_name("F");
  arguments.value("--trace", options.trace_file, "write the tensors of every pass: .safetensors")
      ->type_name("F");
  arguments.value("--recipe", options.load.recipe, "whose meaning the config is read under")
      ->type_name("NAME");
  arguments.value("--weights", weights, "weights in memory: as-stored, f32, f16 or bf16 (as-stored)")
      ->type_name("DTYPE");
  arguments.value("--cache", cache, "keys and values in memory: f32, f16 or bf16 (f32)")->type_name("DTYPE");
  arguments.flag("--loss", options.loss, "mean negative log-likelihood in nats, per row and by position");
  arguments.add_common(options.common);
  arguments.parse(args);

  if (!options.prompt.given())
    throw UsageError("run: give a prompt: --text, --text-file, --ids or --ids-file");
  options.prompt.require_one_kind("run");
  require_distinct_outputs(options);
  require_one_of("run: --pad", pad, {"left", "right"});
  options.padding = pad == "left" ? Padding::left : Padding::right;
  if (positions->count() > 0 && first->count() > 0)
    throw UsageError("run: give --positions or --start, not both");
  // Positions are told apart from their sums with lengths by far: no overflow later.
  constexpr std::int64_t kFarthest = std::int64_t{1} << 40;
  options.start = parse_integer({"run", "--start", -kFarthest, kFarthest}, start);
  options.continue_tokens = parse_integer({"run", "--continue", 0, kFarthest}, tokens);
  options.top = parse_integer({"run", "--top", 0}, top);
  options.threads = threads_of("run", options.common);
  options.load.weights = weight_storage(weights);
  options.cache = cache_dtype(cache);
  if (!options.load.recipe.empty()) (void)find_recipe(options.load.recipe);
  if (options.model.empty()) options.model = "rope";
  return options;
}

}  // namespace locant::cli
