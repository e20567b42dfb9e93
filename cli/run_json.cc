// SPDX-License-Identifier: Apache-2.0
// The JSON of `locant run`.
#include <algorithm>

#include "cli/run_report.h"

namespace locant::cli {
namespace {

OrderedJson piece_or_null(const RunReport& report, std::int64_t id) {
  return report.tokenizer == nullptr ? OrderedJson() : OrderedJson(report.tokenizer->piece(id));
}

OrderedJson model_json(const RunReport& report) {
  const ModelSpec& spec = report.model.spec();
  return {{"path", spec.path},
          {"format", spec.format},
          {"family", spec.family},
          {"layers", spec.layers},
          {"hidden", spec.hidden},
          {"heads", spec.heads},
          {"kv_heads", spec.kv_heads},
          {"head_dim", spec.head_dim},
          {"vocab", spec.vocab},
          {"parameters", report.model.parameters()},
          {"mechanisms", mechanism_names(spec)},
          {"trained", or_null(spec.lengths.trained)},
          {"configured", or_null(spec.lengths.configured)},
          {"recipe", std::string(report.model.recipe().name)}};
}

OrderedJson loss_json(const Loss& loss) {
  OrderedJson buckets = OrderedJson::array();
  for (const LossBucket& bucket : loss.buckets) {
    buckets.push_back({{"from", bucket.from == INT64_MIN ? OrderedJson() : OrderedJson(bucket.from)},
                       {"to", bucket.to},
                       {"tokens", bucket.tokens},
                       {"loss", json_number(bucket.loss)}});
  }
  return buckets;
}

OrderedJson pieces_json(const RunReport& report, const std::vector<std::int64_t>& ids) {
  if (report.tokenizer == nullptr) return nullptr;
  OrderedJson pieces = OrderedJson::array();
  for (const std::int64_t id : ids) pieces.push_back(report.tokenizer->piece(id));
  return pieces;
}

OrderedJson next_json(const RunReport& report, std::size_t row) {
  const bool masked = report.scores.options().predicts == Predicts::itself;
  OrderedJson next = OrderedJson::array();
  for (const NextToken& candidate : report.scores.next[row]) {
    OrderedJson one;
    if (masked) one["token"] = candidate.token;
    one["id"] = candidate.id;
    one["piece"] = piece_or_null(report, candidate.id);
    one["logit"] = json_number(static_cast<double>(candidate.logit));
    one["prob"] = json_number(candidate.probability);
    next.push_back(std::move(one));
  }
  return next;
}

OrderedJson embedding_json(const RunReport& report, std::size_t row) {
  OrderedJson cosines = OrderedJson::array();
  for (const double cosine : report.pooled->similarities(row)) cosines.push_back(json_number(cosine));
  const std::string& file = report.options.embed_file;
  return {{"file", file.empty() ? OrderedJson() : OrderedJson(file)},
          {"pool", name_of(report.options.pool.value_or(Pool::mean))},
          {"norm", json_number(report.pooled->norms()[row])},
          {"cosine", std::move(cosines)}};
}

OrderedJson row_json(const RunReport& report, std::size_t row) {
  OrderedJson out;
  if (report.encoder_rows != nullptr) {
    out["encoder_ids"] = (*report.encoder_rows)[row];
    out["encoder_pieces"] = pieces_json(report, (*report.encoder_rows)[row]);
  }
  out["ids"] = report.rows[row];
  const auto& positions = report.positions.rows[row];
  out["positions"] = report.positions.axes == 1 ? OrderedJson(positions.front()) : OrderedJson(positions);
  out["pieces"] = pieces_json(report, report.rows[row]);
  out["logprobs"] = OrderedJson::array();
  for (const auto& value : report.scores.log_probabilities[row]) out["logprobs"].push_back(or_null(value));
  out["next"] = next_json(report, row);
  if (report.pooled != nullptr) out["embedding"] = embedding_json(report, row);
  const RowContinuation& continuation = report.continuations[row];
  out["continuation"] = {
      {"ids", continuation.ids},
      {"text", report.tokenizer == nullptr ? OrderedJson() : OrderedJson(continuation.text)},
      {"stop", continuation.stop}};
  out["loss"] = nullptr;
  if (report.options.loss) {
    const std::optional<Loss>& loss = report.losses[row];
    if (loss) out["loss"] = json_number(loss->mean);
    out["loss_by_position"] = loss ? loss_json(*loss) : OrderedJson::array();
  }
  return out;
}

}  // namespace

std::optional<double> rate(std::int64_t tokens, double seconds) {
  if (tokens == 0 || !(seconds > 0)) return std::nullopt;
  return static_cast<double>(tokens) / seconds;
}

std::vector<std::string> mechanism_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  const auto add = [&names](const std::vector<PositionSpec>& positions) {
    for (const PositionSpec& position : positions) {
      if (std::find(names.begin(), names.end(), position.mechanism) == names.end())
        names.push_back(position.mechanism);
    }
  };
  add(spec.positions.embedding);
  for (const auto& layer : spec.positions.layers) add(layer);
  return names;
}

OrderedJson run_json(const RunReport& report) {
  OrderedJson out = json_envelope("run");
  out["model"] = model_json(report);
  out["rows"] = OrderedJson::array();
  for (std::size_t row = 0; row < report.rows.size(); ++row) out["rows"].push_back(row_json(report, row));
  const Timing& timing = report.timing;
  out["timing"] = {{"load_s", timing.load_s},
                   {"prompt_tokens", timing.prompt_tokens},
                   {"prompt_tokens_per_s", or_null(rate(timing.prompt_tokens, timing.prompt_s))},
                   {"generated_tokens", timing.generated_tokens},
                   {"generated_tokens_per_s", or_null(rate(timing.generated_passes, timing.generated_s))},
                   {"peak_bytes", timing.peak_bytes}};
  out["memory"] = {{"weight_bytes", report.memory.weights},
                   {"cache_bytes", report.memory.cache},
                   {"workspace_bytes", report.memory.workspace},
                   {"available_bytes", or_null(report.available)}};
  if (report.windows) {
    out["windows"] = {{"window", report.windows->window},
                      {"stride", report.windows->stride},
                      {"count", report.windows_read}};
  }
  out["notes"] = OrderedJson::array();
  for (const Note& note : report.notes)
    out["notes"].push_back(
        {{"rule", note.rule.empty() ? OrderedJson() : OrderedJson(note.rule)}, {"text", note.text}});
  return out;
}

}  // namespace locant::cli
