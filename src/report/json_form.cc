// SPDX-License-Identifier: Apache-2.0
#include "report/json_form.h"

#include <cmath>

#include "locant/report.h"

namespace locant {
namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

std::string_view non_finite_word(double value) noexcept {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return "";
}

std::string json_head(std::string_view command) {
  return json_text_of(json_envelope(command));
}

OrderedJson json_envelope(std::string_view command) {
  return {
      {"schema_version", kSchemaVersion}, {"tool", "locant"}, {"version", version()}, {"command", command}};
}

OrderedJson json_number(double value) {
  const std::string_view word = non_finite_word(value);
  return word.empty() ? OrderedJson(value) : OrderedJson(word);
}

OrderedJson json_fact(const Fact& value) {
  if (const auto* const is = std::get_if<double>(&value)) return json_number(*is);
  if (const auto* const word = std::get_if<std::string>(&value)) return *word;
  return nullptr;
}

OrderedJson json_hypotheses(const std::vector<Hypothesis>& all) {
  OrderedJson out = OrderedJson::array();
  for (const Hypothesis& one : all) {
    OrderedJson parameters = OrderedJson::object();
    for (const auto& [name, value] : one.parameters) parameters[name] = json_number(value);
    out.push_back({{"cause", one.cause},
                   {"parameters", parameters},
                   {"residual", json_number(one.residual)},
                   {"budget", json_number(one.budget)}});
  }
  return out;
}

std::string json_text_of(const OrderedJson& object) {
  return object.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string as_utf8(std::string_view text) {
  return OrderedJson::parse(json_text_of(OrderedJson(text))).get<std::string>();
}

}  // namespace locant
