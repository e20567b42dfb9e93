// SPDX-License-Identifier: Apache-2.0
// The parts of the report, a section each.
#pragma once

#include <string>
#include <string_view>

#include "locant/report.h"
#include "report/html/markup.h"

namespace locant::html {

/// What is worth saying of a part in its first line.
enum class Mood : std::uint8_t { plain, good, odd, bad };
struct Verdict {
  Mood mood = Mood::plain;
  std::string text{};
};
[[nodiscard]] std::string_view class_of(Mood mood);

[[nodiscard]] Verdict inspect_verdict(const Facts& facts);
void write_inspect(Markup& page, const Facts& facts);
/// Charts of how pairs turn, one for each distinct plan.
void write_rotations(Markup& page, const Facts& facts);
/// Slopes, buckets and tables: what else grows with the distance or ends.
void write_other_sites(Markup& page, const Facts& facts);
void write_attention(Markup& page, const Facts& facts);
void write_memory(Markup& page, const Facts& facts);

[[nodiscard]] Verdict check_verdict(const CheckReport& report);
void write_check(Markup& page, const CheckReport& report);
/// What findings may still take: a page with hundreds of them stays small.
struct Allowance {
  std::size_t bytes = 240'000;  ///< of charts
  int drawn_causes = 60;        ///< findings whose causes are drawn; those of others are words
  int left_out = 0;             ///< charts
};
void write_finding(Markup& page, const Finding& finding, Allowance& allowance);
void write_hypotheses(Markup& page, const Finding& finding);

[[nodiscard]] Verdict trust_verdict_of(const TrustReport& report);
void write_trust(Markup& page, const TrustReport& report);
void write_measured(Markup& page, const MeasuredTrust& measured, const StaticTrust& facts);

[[nodiscard]] Verdict compare_verdict(const CompareReport& report);
/// `id` of the section.
void write_compare(Markup& page, const ComparePart& part, const std::string& id);

}  // namespace locant::html
