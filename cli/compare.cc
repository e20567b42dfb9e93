// SPDX-License-Identifier: Apache-2.0
// `locant compare`: where recipes read one model in two ways, or two models differ, and what that does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/compare_effect.h"
#include "cli/compare_report.h"
#include "cli/html_page.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "locant/formats.h"
#include "locant/recipe.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSeededTokens = 256;

struct CompareFlags {
  CommonFlags common;
  std::string model;
  std::string other;
  std::string html;
  std::vector<std::string> recipes;
  std::string recipe;
  CompareQuery query;
  std::vector<std::string> texts;
  std::vector<std::string> text_files;
  std::vector<std::string> ids;
  bool only_static = false;
  int threads = 1;
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> names;
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    names.emplace_back(word);
    if (comma == std::string_view::npos) return names;
    rest.remove_prefix(comma + 1);
  }
}

void require_recipes(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.empty()) throw UsageError("compare: --recipes is names between commas, got an empty one");
    (void)find_recipe(name);
    if (std::count(names.begin(), names.end(), name) > 1)
      throw UsageError(fmt::format("compare: --recipes names each recipe once, got {} again", name));
  }
  if (names.size() < 2)
    throw UsageError(
        fmt::format("compare: --recipes takes two recipes or more, got {} alone", names.front()));
}

DType dtype_of(const std::string& word) {
  require_one_of("compare: --run-dtype", word, {"f32", "bf16", "f16"});
  if (word == "bf16") return DType::bf16;
  return word == "f16" ? DType::f16 : DType::f32;
}

void require_sides(const CompareFlags& flags) {
  if (flags.model.empty()) throw UsageError("compare: give a model and --recipes a,b, or two models");
  if (flags.other.empty() && flags.recipes.empty())
    throw UsageError("compare: one model is compared under --recipes a,b; give them, or a second model");
  if (!flags.other.empty() && !flags.recipes.empty())
    throw UsageError("compare: --recipes are of one model, got two models");
  if (!flags.recipe.empty() && flags.other.empty())
    throw UsageError("compare: --recipe is of two models, one model takes --recipes a,b");
  if (static_cast<int>(!flags.texts.empty()) + static_cast<int>(!flags.text_files.empty()) +
          static_cast<int>(!flags.ids.empty()) >
      1)
    throw UsageError("compare: give one kind of text, --text, --text-file or --ids");
}

CompareFlags parse(Args args) {
  CompareFlags flags;
  std::string recipes;
  std::string distance;
  std::string capacity;
  std::string run_dtype;
  Arguments arguments("compare",
                      "Says where recipes read one model in two ways, or where two models differ, and what "
                      "that does to the logits.",
                      {"locant compare path/to/config.json --recipes hf,vllm,llama.cpp",
                       "locant compare path/to/model path/to/model.gguf --json"});
  arguments.positional("MODEL", flags.model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.positional("OTHER", flags.other, "a second model, in place of --recipes");
  CLI::Option* const named =
      arguments.value("--recipes", recipes, "whose readings are compared, the first with the others");
  named->type_name("A,B,...");
  arguments.value("--recipe", flags.recipe, "whose meaning two models are read under")->type_name("NAME");
  const CLI::Option* const seen =
      arguments.value("--distance", distance, "tokens compared (the configured length)")->type_name("N");
  const CLI::Option* const opened =
      arguments.value("--capacity", capacity, "tokens a runtime is opened for (the distance)")
          ->type_name("N");
  const CLI::Option* const dtype =
      arguments.value("--run-dtype", run_dtype, "f32, bf16 or f16 (the config's, else f32)")
          ->type_name("DTYPE");
  arguments.values("--text", flags.texts, "text to run, a row; again for more")->type_name("S");
  arguments.values("--text-file", flags.text_files, "text to run, a row each (a bundled text)")
      ->type_name("F");
  arguments.values("--ids", flags.ids, "token ids to run, 1,2,3; again for more rows")->type_name("IDS");
  arguments.flag("--static", flags.only_static, "config and headers alone: nothing is run");
  add_html(arguments, flags.html);
  arguments.add_common(flags.common);
  arguments.parse(args);
  if (named->count() > 0) {
    flags.recipes = split(recipes);
    require_recipes(flags.recipes);
  }
  if (!flags.recipe.empty()) (void)find_recipe(flags.recipe);
  if (seen->count() > 0) flags.query.distance = parse_integer({"compare", "--distance", 1}, distance);
  if (opened->count() > 0) flags.query.capacity = parse_integer({"compare", "--capacity", 1}, capacity);
  if (dtype->count() > 0) flags.query.run_dtype = dtype_of(run_dtype);
  require_sides(flags);
  flags.threads = threads_of("compare", flags.common);
  return flags;
}

struct Opened {
  std::string path;
  ModelSpec spec;
};

Opened open(const std::string& model, Host& host) {
  Opened opened{find_model_file(model, host), {}};
  opened.spec = read_model_spec(opened.path);
  return opened;
}

/// Why nothing can be run from that path; "" = weights are there.
std::string without_weights(const Opened& model) {
  if (model.spec.format == "llama2c") return {};  // config and weights are one file
  const std::string place = weights_beside(model.path, model.spec);
  std::error_code error;
  if (place.empty()) return fmt::format("{} is a config without weights", in_quotes(model.path));
  if (!fs::is_directory(place, error)) {
    return GgufFile(place).tensors().empty() ? fmt::format("{} holds no tensors", in_quotes(place)) : "";
  }
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(fs::path(place) / name, error)) return "";
  }
  return fmt::format("{} holds no weights in safetensors", in_quotes(place));
}

Rows encoded(const OpenedTokenizer& tokenizer, const std::vector<std::string>& texts) {
  return encode("compare", {.texts = texts, .ids = {}}, tokenizer);
}

/// The tokens to run: those given, the bundled text, or seeded ids.
CompareRows rows_of(const CompareFlags& flags, const Opened& model, Host& host) {
  CompareRows rows;
  for (const std::string& list : flags.ids) rows.rows.push_back(parse_ids("compare", list));
  if (!rows.rows.empty()) {
    rows.text = "ids";
    return rows;
  }
  std::vector<std::string> texts = flags.texts;
  for (const std::string& file : flags.text_files) texts.push_back(read_file(file));
  const OpenedTokenizer tokenizer = host.open_tokenizer(model.path);
  if (!texts.empty()) return {encoded(tokenizer, texts), "given"};
  if (tokenizer.tokenizer != nullptr && tokenizer.why_not.empty()) {
    try {
      return {encoded(tokenizer, {std::string(bundled_passage())}), "bundled"};
    } catch (const SpecError&) {
      // A vocabulary that cannot say it gets ids instead.
    }
  }
  return {{seeded_ids(model.spec.vocab, kSeededTokens)}, "seeded"};
}

/// Whether both tokenizers say the same of the text; nothing where one of them is not to be had.
std::optional<bool> same_tokenizer(const CompareFlags& flags, const Opened& a, const Opened& b, Host& host) {
  std::vector<std::string> texts = flags.texts;
  for (const std::string& file : flags.text_files) texts.push_back(read_file(file));
  if (texts.empty()) texts = {std::string(bundled_passage())};
  try {
    const OpenedTokenizer of_a = host.open_tokenizer(a.path);
    const OpenedTokenizer of_b = host.open_tokenizer(b.path);
    if (!of_a.tokenizer || !of_b.tokenizer || !of_a.why_not.empty() || !of_b.why_not.empty())
      return std::nullopt;
    return encoded(of_a, texts) == encoded(of_b, texts);
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

CompareSide side_of(const std::string& name, const Opened& model, const std::string& recipe) {
  return {.name = name,
          .spec = &model.spec,
          .recipe = recipe,
          .dtype = model.spec.format == "hf" ? stated_dtype(model.path) : std::nullopt,
          .weights = weights_beside(model.path, model.spec)};
}

std::string usual_recipe(const ModelSpec& spec) {
  return spec.format == "gguf" ? "llama.cpp" : "hf";
}

/// Every two sides, those with the first one before the others.
void compare_sides(const std::vector<CompareSide>& sides, const CompareQuery& query, Progress& progress,
                   CompareReport& report) {
  for (std::size_t i = 0; i < sides.size(); ++i) {
    for (std::size_t k = i + 1; k < sides.size(); ++k) {
      progress.show(fmt::format("comparing {} and {}", sides[i].name, sides[k].name));
      try {
        report.pairs.push_back(compare(sides[i], sides[k], query));
      } catch (const SpecError&) {
        if (i == 0) throw;  // of the others, two that both refuse have nothing to differ in
      }
    }
  }
  progress.clear();
}

std::optional<CompareEffect> effect_of(const CompareFlags& flags, const Opened& a, const Opened& b,
                                       CompareReport& report, Host& host, Progress& progress) {
  if (flags.only_static) return std::nullopt;
  CompareEffect none;
  none.why_not = without_weights(a);
  if (none.why_not.empty()) none.why_not = without_weights(b);
  if (none.why_not.empty() && a.spec.vocab != b.spec.vocab)
    none.why_not = fmt::format("the vocabularies are {} and {} tokens", a.spec.vocab, b.spec.vocab);
  const bool asked = !flags.texts.empty() || !flags.text_files.empty() || !flags.ids.empty();
  if (!none.why_not.empty()) {
    if (asked) throw SpecError(fmt::format("compare: a text is given and cannot be run, {}", none.why_not));
    return none;
  }
  const CompareRows rows = rows_of(flags, a, host);
  ThreadPool pool(flags.threads);
  EffectJob job{.sides = {},
                .rows = rows,
                .distance = report.pairs.front().distance,
                .capacity = report.pairs.front().capacity,
                .run_dtype = report.pairs.front().run_dtype,
                .pool = pool,
                .host = host,
                .progress = progress};
  for (std::size_t i = 0; i < report.sides.size(); ++i) {
    job.sides.push_back({.name = report.sides[i],
                         .path = i > 0 && !report.other.empty() ? b.path : a.path,
                         .recipe = report.recipes[i]});
  }
  return measure_effect(job);
}

/// Two models may differ in their values alone.
bool values_differ(const CompareReport& report) {
  constexpr double kHalfStepOfBf16 = 0x1p-8;
  if (report.other.empty() || !report.effect) return false;
  return std::any_of(report.effect->pairs.begin(), report.effect->pairs.end(),
                     [](const LogitChange& one) { return !(one.largest_relative <= kHalfStepOfBf16); });
}

CompareReport report_of(const CompareFlags& flags, Host& host) {
  Progress progress(host, flags.common);
  const Opened a = open(flags.model, host);
  const Opened b = flags.other.empty() ? a : open(flags.other, host);
  CompareReport report;
  report.model = a.path;
  report.family = a.spec.family;
  std::vector<CompareSide> sides;
  if (flags.other.empty()) {
    report.sides = report.recipes = flags.recipes;
    for (const std::string& recipe : flags.recipes) sides.push_back(side_of(recipe, a, recipe));
  } else {
    report.other = b.path;
    report.sides = {"A", "B"};
    for (const Opened* const model : {&a, &b}) {
      report.recipes.push_back(flags.recipe.empty() ? usual_recipe(model->spec) : flags.recipe);
      sides.push_back(side_of(report.sides.at(sides.size()), *model, report.recipes.back()));
    }
    report.same_tokenizer = same_tokenizer(flags, a, b, host);
  }
  compare_sides(sides, flags.query, progress, report);
  report.effect = effect_of(flags, a, b, report, host, progress);
  progress.clear();
  return report;
}

}  // namespace

CompareReport compare_report(Args args, Host& host) {
  return report_of(parse(args), host);
}

bool sides_differ(const CompareReport& report) {
  const bool found = std::any_of(report.pairs.begin(), report.pairs.end(), [&](const Comparison& pair) {
    return pair.a == report.sides.front() && differs(pair);
  });
  return found || values_differ(report);
}

int compare_command(Args args, Host& host) {
  const CompareFlags flags = parse(args);
  Answer answer(host, flags.common);
  const HtmlPage page(flags.html, flags.common, "compare", args);
  const CompareReport report = report_of(flags, host);
  if (flags.common.json) {
    answer.write_json(compare_report_json(report));
  } else {
    write_compare_text(report, answer);
  }
  answer.finish();
  if (page.asked()) {
    const std::vector<std::optional<Facts>> sides = page_facts(report);
    HtmlReport html;
    html.model = report.model;
    html.facts = sides.front() ? &*sides.front() : nullptr;
    html.compare = {page_part(report, sides)};
    (void)page.write(html, host);
  }
  return sides_differ(report) ? 1 : 0;
}

}  // namespace locant::cli
