// SPDX-License-Identifier: Apache-2.0
// `locant trust`: how far a model's positions can be trusted.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/html_page.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "cli/stream.h"
#include "cli/trust_report.h"
#include "locant/formats.h"
#include "locant/model.h"
#include "locant/report.h"

namespace locant::cli {
namespace {

struct TrustFlags {
  CommonFlags common;
  std::string model;
  std::string html;
  std::vector<std::string> texts;
  std::string ids_file;
  std::string runtime = "locant";
  StaticTrustQuery query;
  Extension extension;
  double budget_s = 120;
  std::uint64_t seed = 1;
};

bool measures(const TrustFlags& flags) {
  return !flags.texts.empty() || !flags.ids_file.empty();
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double number_of(std::string_view flag, std::string_view text, std::string_view what) {
  const std::optional<double> value = number_in(text);
  if (!value) throw UsageError(fmt::format("trust: {} is {}, got {}", flag, what, in_quotes(text)));
  return *value;
}

/// "90", "90s", "2m", "1h", "1.5m": seconds.
double seconds_of(std::string_view text) {
  constexpr std::string_view kWhat = "a time above 0 such as 90s, 2m or 1h";
  double unit = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    const char last = digits.back();
    if (last == 's' || last == 'm' || last == 'h') {
      unit = last == 's' ? 1 : last == 'm' ? 60 : 3600;
      digits.remove_suffix(1);
    }
  }
  const double seconds = unit * number_in(digits).value_or(0);
  if (!(seconds > 0 && seconds < 1e7))
    throw UsageError(fmt::format("trust: --budget is {}, got {}", kWhat, in_quotes(text)));
  return seconds;
}

TrustFlags parse(Args args) {
  TrustFlags flags;
  std::string to;
  std::string trained;
  std::string budget;
  std::string factor;
  std::string beta_fast;
  std::string seed;
  Arguments arguments(
      "trust",
      "Says how far a model's positions can be trusted: what is declared, what training saw, and "
      "with a text how far the loss does not rise and the model still finds what is there.",
      {"locant trust rope --to 1024", "locant trust path/to/model --text-file novel.txt --budget 5m"});
  arguments.positional("MODEL", flags.model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.values("--text-file", flags.texts, "a document, or one long enough to be cut (again for more)");
  arguments.value("--ids-file", flags.ids_file, "a .npy of ids, [T] or [B,T]: each row is a document");
  arguments.value("--to", to, "tokens: how far is asked (the declared length)");
  arguments.value("--trained", trained, "tokens that training saw, before any field")->type_name("N");
  arguments.value("--budget", budget, "time for measuring, such as 90s, 2m or 1h (2m)");
  arguments.value(
      "--extend", flags.extension.method,
      "a schedule to be tried: linear, ntk, dynamic, yarn or llama3; none takes the model's own away");
  arguments.value("--factor", factor, "of --extend");
  arguments.value("--beta-fast", beta_fast, "of --extend yarn, turns (32)");
  arguments.value("--recipe", flags.query.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.value("--runtime", flags.runtime, "what is measured: locant or hf (locant)");
  arguments.value("--seed", seed, "of documents, segments and intervals (1)");
  add_html(arguments, flags.html);
  arguments.add_common(flags.common);
  arguments.parse(args);
  if (flags.model.empty())
    throw UsageError("trust: give a model: a directory, a config.json, a .gguf file or a bundled name");
  require_one_of("--runtime", flags.runtime, {"locant", "hf"});
  if (!to.empty()) flags.query.to = parse_integer({"trust", "--to", 2}, to);
  if (!trained.empty()) flags.query.trained = parse_integer({"trust", "--trained", 2}, trained);
  if (!budget.empty()) flags.budget_s = seconds_of(budget);
  if (!measures(flags) && !(budget.empty() && seed.empty()))
    throw UsageError(fmt::format("trust: {} is of measuring, give --text-file or --ids-file",
                                 budget.empty() ? "--seed" : "--budget"));
  if (!seed.empty()) flags.seed = static_cast<std::uint64_t>(parse_integer({"trust", "--seed", 0}, seed));
  if (!flags.query.recipe.empty()) (void)find_recipe(flags.query.recipe);
  if (!flags.extension.method.empty())
    require_one_of("--extend", flags.extension.method,
                   {"none", "linear", "ntk", "dynamic", "yarn", "llama3"});
  if (flags.extension.method.empty() && (!factor.empty() || !beta_fast.empty()))
    throw UsageError("trust: --factor and --beta-fast belong to --extend, which is not given");
  if (!flags.extension.method.empty() && flags.extension.method != "none" && factor.empty())
    throw UsageError(fmt::format("trust: --extend {} needs a --factor", flags.extension.method));
  if (!factor.empty()) flags.extension.factor = number_of("--factor", factor, "a number from 1");
  if (!beta_fast.empty()) flags.extension.beta_fast = number_of("--beta-fast", beta_fast, "a number above 0");
  if (!flags.extension.method.empty() && flags.runtime != "locant")
    throw UsageError("trust: --extend changes Locant's own model, --runtime locant");
  return flags;
}

struct Texts {
  std::vector<TrustDocument> documents;
  std::vector<std::int64_t> lead;
};

Texts read_texts(const TrustFlags& flags, const std::string& path, const ModelSpec& spec, Host& host) {
  Texts texts;
  if (!flags.ids_file.empty()) {
    PromptFlags prompt;
    prompt.ids_file = flags.ids_file;
    std::int64_t row = 0;
    for (auto& ids : read_prompt("trust", prompt).ids)
      texts.documents.push_back({fmt::format("{} row {}", flags.ids_file, row++), std::move(ids)});
  }
  if (flags.texts.empty()) return texts;
  const OpenedTokenizer opened = host.open_tokenizer(path);
  if (opened.tokenizer == nullptr || !opened.why_not.empty())
    throw UsageError(fmt::format("trust: --text-file needs the model's tokenizer: {}", opened.why_not));
  for (const std::string& file : flags.texts) {
    std::vector<std::int64_t> ids = opened.tokenizer->encode(read_file(file));
    // what the tokenizer puts in front stands in front of every window, not of the first alone
    if (!ids.empty() && spec.bos && ids.front() == *spec.bos) {
      texts.lead = {*spec.bos};
      ids.erase(ids.begin());
    }
    texts.documents.push_back({file, std::move(ids)});
  }
  return texts;
}

/// A spec that is run: what is unknown in it is an error here.
ModelSpec runnable_spec(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return read_hf_config(path);
  if (path.ends_with(".gguf")) return read_gguf(path);
  if (path.ends_with(".bin")) return read_llama2c(path);
  throw UsageError(fmt::format(
      "trust: {} is a config alone, --text-file needs its weights: give the directory", in_quotes(path)));
}

class Measured {
 public:
  Measured(const TrustFlags& flags, const std::string& path, Host& host)
      : flags_(flags),
        path_(path),
        host_(host),
        progress_(host, flags.common),
        pool_(threads_of("trust", flags.common)) {}

  MeasuredTrust take(const StaticTrust& facts) {
    const bool own = flags_.runtime == "locant";
    const ModelSpec spec = own ? runnable_spec(path_) : read_model_spec(path_);
    Texts texts = read_texts(flags_, path_, spec, host_);
    const ModelSpec stored = with_stored_rows(spec, facts);
    progress_.show("loading");
    const std::unique_ptr<Runtime> runtime = own ? open(stored) : host_.open_runtime(flags_.runtime, path_);
    MeasureQuery query;
    query.runtime = runtime.get();
    std::unique_ptr<Runtime> scaled;
    const DrivingRules rules = driving_rules(stored, facts.recipe);
    bool follows = rules.follows_length;
    if (!flags_.extension.method.empty()) {
      const ModelSpec extended =
          extended_spec(stored, flags_.extension, facts.trained.tokens.value_or(facts.to));
      scaled = open(extended);
      query.scaled = scaled.get();
      query.extension = flags_.extension;
      follows = follows || driving_rules(extended, facts.recipe).follows_length;
    }
    query.facts = &facts;
    query.documents = std::move(texts.documents);
    query.lead = std::move(texts.lead);
    query.budget_s = flags_.budget_s;
    query.spent_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    query.seed = flags_.seed;
    query.follows_length = follows;
    query.absolute = rules.absolute;
    const InterruptWatch watch;
    query.interrupt = &watch.flag();
    query.planned = [this](const TrustPlan& plan) { say_plan(plan); };
    query.progress = [this](std::string_view doing) { progress_.show(fmt::format("measuring: {}", doing)); };
    MeasuredTrust measured = measure_trust(query);
    progress_.clear();
    return measured;
  }

 private:
  std::unique_ptr<Runtime> open(const ModelSpec& spec) {
    return Model::load(path_, {.recipe = flags_.query.recipe, .spec = &spec}, pool_);
  }

  void say_plan(const TrustPlan& plan) {
    progress_.clear();
    if (!flags_.common.quiet && host_.err_is_terminal())
      host_.err() << "locant: " << one_line(plan_text(plan)) << '\n' << std::flush;
  }

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const TrustFlags& flags_;
  const std::string& path_;
  Host& host_;
  Progress progress_;
  ThreadPool pool_;
};

/// Without what is measured; refuses a text that cannot be.
TrustReport static_report(TrustFlags& flags, const std::string& path) {
  ModelSpec spec = read_model_spec(path);
  StaticTrustQuery& query = flags.query;
  query.weights = weights_beside(path, spec);
  query.spec = &spec;
  TrustReport report;
  report.model = facts_of(spec, {.recipe = query.recipe}).model;
  report.facts = static_trust(query);
  if (!flags.extension.method.empty()) {
    // the static part is that of the schedule which is tried
    spec = extended_spec(spec, flags.extension, report.facts.trained.tokens.value_or(report.facts.to));
    if (!query.trained && report.facts.trained.tokens) query.trained = report.facts.trained.tokens;
    const StatedLength trained = report.facts.trained;
    report.facts = static_trust(query);
    report.facts.trained = trained;
    report.extension = flags.extension;
  }
  query.spec = nullptr;
  if (measures(flags) && !report.facts.unmeasurable.empty())
    throw UsageError(
        fmt::format("trust: a text is measured on a decoder alone, {}", report.facts.unmeasurable));
  return report;
}

void complete(const TrustFlags& flags, const std::string& path, Host& host, TrustReport& report) {
  if (measures(flags)) report.measured = Measured(flags, path, host).take(report.facts);
  report.verdict = trust_verdict(report.facts, report.measured ? &*report.measured : nullptr);
}

/// A recipe that was asked for and cannot read the model has no answer.
void require_read(const TrustFlags& flags, const StaticTrust& facts) {
  if (flags.query.recipe.empty()) return;
  for (const TrustFinding& finding : facts.findings) {
    if (finding.name == "family-unknown" || finding.name == "recipe-refuses")
      throw UsageError(fmt::format("trust: {}", finding.text.substr(0, finding.text.find(": what stands"))));
  }
}

}  // namespace

TrustReport trust_report(Args args, Host& host) {
  TrustFlags flags = parse(args);
  const std::string path = find_model_file(flags.model, host);
  TrustReport report = static_report(flags, path);
  complete(flags, path, host, report);
  return report;
}

int trust_command(Args args, Host& host) {
  TrustFlags flags = parse(args);
  Answer answer(host, flags.common);
  const HtmlPage page(flags.html, flags.common, "trust", args);
  const std::string path = find_model_file(flags.model, host);
  TrustReport report = static_report(flags, path);
  require_read(flags, report.facts);  // before minutes are spent
  complete(flags, path, host, report);
  if (flags.common.json) {
    answer.stream() << trust_json(report) << '\n';
  } else {
    write_trust_text(report, answer);
  }
  answer.finish();
  if (page.asked()) {
    const std::optional<Facts> facts = page_facts(path, flags.query.recipe);
    HtmlReport html;
    html.model = path;
    html.facts = facts ? &*facts : nullptr;
    html.trust = &report;
    (void)page.write(html, host);
  }
  return report.verdict.word == TrustWord::worse ? 1 : 0;
}

}  // namespace locant::cli
