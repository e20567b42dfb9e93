// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>
#include <utility>

namespace locant::cli {
namespace {

void require_distinct_outputs(const RunOptions& options) {
  std::set<std::string> seen;
  for (const std::string* path :
       {&options.common.output, &options.logits_file, &options.trace_file, &options.embed_file}) {
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
  require_one_of("run: --cache", word, {"f32", "f16", "bf16", "int8"});
  if (word == "int8") return DType::i8;
  if (word == "f16") return DType::f16;
  return word == "bf16" ? DType::bf16 : DType::f32;
}

Pool pool_of(const std::string& word) {
  require_one_of("run: --pool", word, {"mean", "cls", "last"});
  if (word == "mean") return Pool::mean;
  return word == "cls" ? Pool::cls : Pool::last;
}

double parse_number(std::string_view flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    throw UsageError(fmt::format("run: {} is a number, got {}", flag, in_quotes(text)));
  return value;
}

/// The flags of drawing, as they were written.
struct SamplingFlags {
  std::string temperature;
  std::string top_k;
  std::string top_p;
  std::string seed;

  void add_to(Arguments& arguments) {
    arguments.value("--temperature", temperature, "draw tokens from softmax(logits / T); 0 = the best (0)")
        ->type_name("T");
    arguments.value("--top-k", top_k, "draw from the K best alone; 0 = all (0)")->type_name("K");
    arguments.value("--top-p", top_p, "draw from the fewest that have this share of the probability (1)")
        ->type_name("P");
    arguments.value("--seed", seed, "of the draws (0)")->type_name("N");
  }

  [[nodiscard]] Sampling read() const {
    Sampling sampling;
    if (!temperature.empty()) sampling.temperature = parse_number("--temperature", temperature);
    if (!top_k.empty()) sampling.top_k = parse_integer({"run", "--top-k", 0}, top_k);
    if (!top_p.empty()) sampling.top_p = parse_number("--top-p", top_p);
    if (!seed.empty()) sampling.seed = static_cast<std::uint64_t>(parse_integer({"run", "--seed", 0}, seed));
    check_sampling(sampling);
    if (sampling.temperature > 0) return sampling;
    for (const auto& [flag, text] :
         {std::pair("--top-k", &top_k), std::pair("--top-p", &top_p), std::pair("--seed", &seed)}) {
      if (!text->empty()) throw UsageError(fmt::format("run: {} needs a --temperature above 0", flag));
    }
    return sampling;
  }
};

/// What cannot be asked for together.
void require_that_fits(const RunOptions& options) {
  const auto refuse = [](std::string_view a, std::string_view b) {
    throw UsageError(fmt::format("run: {} does not go with {}", a, b));
  };
  const std::string_view windowed = options.window > 0 ? "--window" : options.stride > 0 ? "--stride" : "";
  if (!windowed.empty() && !options.loss) throw UsageError(fmt::format("run: {} needs --loss", windowed));
  if (options.pool && options.embed_file.empty()) throw UsageError("run: --pool needs --embed");
  const std::string_view alone = !options.embed_file.empty() ? "--embed" : windowed;
  if (alone.empty()) return;
  if (options.continue_tokens > 0) refuse(alone, "--continue");
  if (!options.logits_file.empty()) refuse(alone, "--logits");
  if (alone == "--embed") {
    if (options.loss) refuse(alone, "--loss");
    if (!options.decoder_ids.empty()) refuse(alone, "--decoder-ids");
    return;
  }
  if (!options.trace_file.empty()) refuse(alone, "--trace");
  if (!options.positions_file.empty()) refuse(alone, "--positions");
  if (options.start != 0) refuse(alone, "--start");
}

}  // namespace

std::string_view name_of(Pool pool) noexcept {
  if (pool == Pool::mean) return "mean";
  return pool == Pool::cls ? "cls" : "last";
}

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

Activations activations_of(const std::string& name) {
  require_one_of("run: --activations", name, {"f32", "bf16", "int8"});
  if (name == "bf16") return Activations::bf16;
  return name == "int8" ? Activations::int8 : Activations::f32;
}

RunOptions read_run_options(Args args) {
  RunOptions options;
  std::string pad = "left";
  std::string start = "0";
  std::string tokens = "0";
  std::string top = "5";
  std::string weights = "as-stored";
  std::string cache = "f32";
  std::string activations = "f32";
  std::string window;
  std::string stride;
  std::string pool;
  SamplingFlags sampling;

  Arguments arguments("run", "Runs a model: text or ids -> logits, the next tokens, a continuation.",
                      {"locant run rope --text \"It is a truth\" --continue 40",
                       "locant run path/to/model --ids 1,2,3 --ids 4,5 --json"});
  arguments.positional("MODEL", options.model,
                       "Hugging Face directory, a .gguf or .bin file, or a bundled model (rope)");
  options.prompt.add_to(arguments);
  arguments
      .value("--pad", pad,
             "side on which --positions, --logits and --trace pad uneven rows: left or right (left)")
      ->type_name("SIDE");
  const CLI::Option* positions =
      arguments
          .value("--positions", options.positions_file, "position ids as .npy, [T], [B,T] or [axes,B,T]")
          ->type_name("F");
  const CLI::Option* first =
      arguments.value("--start", start, "position of the first token (0)")->type_name("N");
  arguments.value("--continue", tokens, "tokens to add, the best ones unless a temperature is given (0)")
      ->type_name("N");
  sampling.add_to(arguments);
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
  arguments.value("--cache", cache, "keys and values in memory: f32, f16, bf16 or int8 (f32)")
      ->type_name("DTYPE");
  arguments
      .value("--activations", activations,
             "arithmetic of products: f32, bf16 for weights of bf16, or int8 for blocks of a .gguf (f32)")
      ->type_name("KIND");
  arguments.flag("--loss", options.loss, "mean negative log-likelihood in nats, per row and by position");
  arguments.value("--window", window, "score the loss in windows of N tokens (the configured length)")
      ->type_name("N");
  arguments.value("--stride", stride, "tokens from one window to the next (half a window)")->type_name("N");
  arguments
      .value("--embed", options.embed_file,
             "write one vector a row, pooled hidden states: .npy f32 [B,hidden]")
      ->type_name("F");
  arguments.value("--pool", pool, "how: mean of the row's tokens, cls (the first) or last (mean)")
      ->type_name("KIND");
  arguments
      .values("--decoder-ids", options.decoder_ids,
              "a decoder's first tokens beside an encoder, which reads the prompt; once, or once a row")
      ->type_name("IDS");
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
  options.load.activations = activations_of(activations);
  options.sampling = sampling.read();
  if (!window.empty()) options.window = parse_integer({"run", "--window", 2, kFarthest}, window);
  if (!stride.empty()) options.stride = parse_integer({"run", "--stride", 1, kFarthest}, stride);
  if (!pool.empty()) options.pool = pool_of(pool);
  require_that_fits(options);
  if (!options.load.recipe.empty()) (void)find_recipe(options.load.recipe);
  if (options.model.empty()) options.model = "rope";
  return options;
}

}  // namespace locant::cli
