// SPDX-License-Identifier: Apache-2.0
// One tensor of one pass against the other trace: elements that stand for the same token, head and key are
// compared, whatever the padding, the pieces, the dtype, or repeated and missing axes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "check/diff_budget.h"
#include "check/diff_flow.h"
#include "check/diff_lines.h"
#include "check/diff_pairing.h"
#include "check/diff_sides.h"

namespace locant::check_room {

struct TensorReport {
  bool compared = false;
  std::optional<Divergence> divergence{};
};

class TensorComparer {
 public:
  /// Both outlive the object. Notes are said once.
  TensorComparer(const Pair& pair, std::vector<std::string>& notes);

  /// Of a pass of `want`. Tensors that `got` lacks in all its passes are not compared.
  [[nodiscard]] TensorReport compare(std::size_t pass, const FlowName& name);
  /// How `got` lays out the channels of a head; nothing = as `want`.
  [[nodiscard]] std::optional<ChannelOrder> order_of(const FlowName& name) const;
  /// What rounding explains at a token.
  [[nodiscard]] double budget(const FlowName& name, std::int64_t width, const LinePlace& at,
                              std::size_t pass) const;
  /// The coarser dtype of what a tensor was computed in.
  [[nodiscard]] DType dtype_of(std::size_t pass, const FlowName& name) const;

 private:
  struct Found {
    LineReport report;
    std::int64_t head_dim = 0;  ///< 0 = the head is the line's, or none
    bool by_token = true;
    bool by_head = false;
  };

  [[nodiscard]] TensorReport shapes(std::size_t pass, const FlowName& name, const TensorRef& want,
                                    const TensorRef& got) const;
  [[nodiscard]] TensorReport tokens(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport table(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport integers(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport slots(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport scores(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport whole(std::size_t pass, const FlowName& name);
  [[nodiscard]] TensorReport report_of(std::size_t pass, const FlowName& name, const Found& found) const;
  [[nodiscard]] LineReport in_either_order(const FlowName& name, const Lines& lines, std::int64_t head_dim);
  [[nodiscard]] bool looks_like_tokens(std::size_t pass, const FlowName& name) const;
  [[nodiscard]] TensorRef any_got(std::size_t pass, const FlowName& name) const;
  void factor(std::size_t pass, const FlowName& name, const LineReport& report, std::int64_t width,
              TensorReport& out) const;
  void note(const std::string& text);

  const Pair& pair_;
  std::vector<std::string>& notes_;
  std::set<std::string> said_;
  std::int64_t layers_ = 0;
  std::optional<ChannelOrder> before_;  ///< of q_pre, k_pre
  std::optional<ChannelOrder> after_;   ///< of q, k and the cache
  std::optional<ChannelOrder> applied_;
  int tries_ = 0;
};

/// The tensor of that name in each pass of a side, read line by line; null data where a pass lacks it.
class SideReaders {
 public:
  SideReaders(const Side& side, const FlowName& name);
  [[nodiscard]] LineReader& of(std::size_t pass) { return readers_[pass]; }
  [[nodiscard]] const TensorRef& tensor(std::size_t pass) const { return readers_[pass].tensor(); }

 private:
  std::vector<LineReader> readers_;
};

}  // namespace locant::check_room
