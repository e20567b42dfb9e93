// SPDX-License-Identifier: Apache-2.0
// Traces out: names get the step's prefix, tensors go to the safetensors writer as they come.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/quote.h"
#include "locant/formats.h"
#include "locant/trace.h"
#include "trace/score_shaped.h"

namespace locant {

struct TraceWriter::State {
  State(std::string path, TraceOptions options_) : file(std::move(path)), options(std::move(options_)) {}
  SafetensorsWriter file;
  TraceOptions options;
  std::int64_t step = 0;
  std::set<std::string, std::less<>> recorded;  // of this step
};

TraceWriter::TraceWriter(std::string path, TraceOptions options)
    : state_(std::make_unique<State>(std::move(path), std::move(options))) {
  SafetensorsWriter& file = state_->file;
  file.set_metadata("locant.trace", "1");
  file.set_metadata("locant.producer", state_->options.producer);
  file.set_metadata("locant.model", state_->options.model);
  file.set_metadata("locant.dtype", name_of(state_->options.dtype));
  if (!state_->options.stack.empty()) file.set_metadata("locant.stack", state_->options.stack);
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::begin_pass() {
  // A pass that recorded nothing is none: steps have no gaps.
  if (!state_->recorded.empty()) ++state_->step;
  state_->recorded.clear();
}

bool TraceWriter::wants(std::string_view name, std::int64_t elements) {
  constexpr std::int64_t kScoreBytes = 4;
  return !is_score_shaped(name) ||
         elements <= std::max<std::int64_t>(state_->options.largest_scores, 0) / kScoreBytes;
}

void TraceWriter::record(std::string_view name, const TensorRef& tensor) {
  if (state_->recorded.contains(name)) {
    throw SpecError(fmt::format("trace: a name is recorded once in a pass, {} comes again in pass {}",
                                quote(name), state_->step));
  }
  state_->file.add(trace_names::step_prefix(state_->step) + std::string(name), tensor);
  state_->recorded.emplace(name);
}

void TraceWriter::finish() {
  state_->file.finish();
}

}  // namespace locant
