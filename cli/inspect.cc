// SPDX-License-Identifier: Apache-2.0
// `locant inspect`: the facts of a model.
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/html_page.h"
#include "cli/inspect_report.h"
#include "cli/models.h"
#include "cli/stream.h"
#include "cli/suggest.h"
#include "locant/recipe.h"

namespace locant::cli {
int inspect_command(Args args, Host& host) {
  CommonFlags common;
  std::string model;
  std::string distance;
  std::string capacity;
  std::string html;
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
  add_html(arguments, html);
  arguments.add_common(common);
  arguments.parse(args);
  if (model.empty())
    throw UsageError("inspect: give a model: a directory, a config.json, a .gguf file or a bundled name");
  if (seen->count() > 0) query.distance = parse_integer({"inspect", "--distance", 0}, distance);
  if (opened->count() > 0) query.capacity = parse_integer({"inspect", "--capacity", 1}, capacity);
  if (!query.recipe.empty()) (void)find_recipe(query.recipe);

  Answer answer(host, common);
  const HtmlPage page(html, common, "inspect", args);
  const std::string path = find_model_file(model, host);
  const ModelSpec spec = read_model_spec(path);
  query.weights = weights_beside(path, spec);
  const Facts facts = facts_of(spec, query);
  if (common.json) {
    answer.write_json(inspect_json(facts));
  } else {
    write_inspect_text(facts, answer);
  }
  answer.finish();
  HtmlReport report;
  report.model = path;
  report.facts = &facts;
  if (page.asked()) (void)page.write(report, host);
  return 0;
}

}  // namespace locant::cli
