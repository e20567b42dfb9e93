// SPDX-License-Identifier: Apache-2.0
#include "check/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "check/vision.h"
#include "facts/parts.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

template <class T>
T load(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + static_cast<std::size_t>(index) * sizeof(T),
              sizeof(T));
  return value;
}

float float_at(const TensorRef& tensor, std::int64_t index) {
  switch (tensor.dtype) {
    case DType::f64:
      return static_cast<float>(load<double>(tensor.data, index));
    case DType::f16:
      return f32_from(load<Half>(tensor.data, index));
    case DType::bf16:
      return f32_from(load<BFloat16>(tensor.data, index));
    default:
      return load<float>(tensor.data, index);
  }
}

std::int64_t integer_at(const TensorRef& tensor, std::int64_t index) {
  switch (tensor.dtype) {
    case DType::i32:
      return load<std::int32_t>(tensor.data, index);
    case DType::i16:
      return load<std::int16_t>(tensor.data, index);
    case DType::i8:
      return load<std::int8_t>(tensor.data, index);
    case DType::u8:
    case DType::boolean:
      return load<std::uint8_t>(tensor.data, index);
    default:
      return load<std::int64_t>(tensor.data, index);
  }
}

void require_shape(const Pass& pass, std::string_view name, const TensorRef& tensor,
                   const std::vector<std::int64_t>& shape) {
  const bool same = tensor.rank == shape.size() &&
                    std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                               [](std::int64_t want, std::int64_t got) { return want < 0 || want == got; });
  if (same) return;
  std::string want;
  for (const std::int64_t extent : shape)
    want += fmt::format("{}{}", want.empty() ? "" : ",", extent < 0 ? "*" : std::to_string(extent));
  throw FileError(pass.path,
                  fmt::format("{}{} is [{}], got {}", pass.prefix, name, want, tensor.shape_text()));
}

/// B and T from whatever of the pass states them.
void read_shape(Pass& pass) {
  const TensorRef ids = pass.find(names::kInputIds);
  if (ids.data != nullptr) {
    require_shape(pass, names::kInputIds, ids, {-1, -1});
    pass.rows = ids.shape[0];
    pass.tokens = ids.shape[1];
    pass.ids = integers_of(ids, pass.path + ": " + pass.prefix + "input_ids");
    return;
  }
  for (const std::string_view name : {names::kEmbedOut, names::kEmbedTokens, names::kFinalNormOut}) {
    const TensorRef state = pass.find(name);
    if (state.data == nullptr) continue;
    require_shape(pass, name, state, {-1, -1, -1});
    pass.rows = state.shape[0];
    pass.tokens = state.shape[1];
    return;
  }
  for (const names::Layer tensor :
       {names::Layer::q, names::Layer::k, names::Layer::q_pre, names::Layer::out}) {
    const std::string name = names::layer(0, tensor);
    const TensorRef state = pass.find(name);
    if (state.data == nullptr) continue;
    if (state.rank < 2) require_shape(pass, name, state, {-1, -1, -1, -1});
    pass.rows = state.shape[0];
    pass.tokens = state.shape[1];
    return;
  }
}

/// A table of cos and sin that was dumped alone stands for one row of its positions.
void read_table_shape(Pass& pass) {
  for (const std::string& name : pass.trace->names()) {
    if (!name.starts_with(pass.prefix + "rope.") || !name.ends_with("cos")) continue;
    const TensorRef table = recorded(*pass.trace, name);
    if (table.rank < 2 || table.rank > 3) continue;
    pass.rows = table.rank == 3 ? table.shape[0] : 1;
    pass.tokens = table.shape[table.rank - 2];
    return;
  }
}

/// Which columns hold content, and how much of each row came before.
void read_mask(Pass& pass, const Pass* before) {
  const auto B = static_cast<std::size_t>(pass.rows);
  const std::int64_t known = before != nullptr ? before->width : 0;
  const TensorRef mask = pass.find(names::kAttentionMask);
  pass.width = known + pass.tokens;
  std::vector<bool> columns;
  if (mask.data != nullptr) {
    require_shape(pass, names::kAttentionMask, mask, {pass.rows, -1});
    const std::int64_t width = mask.shape[1];
    if (width < pass.tokens) require_shape(pass, names::kAttentionMask, mask, {pass.rows, pass.tokens});
    const std::vector<std::int64_t> ones =
        integers_of(mask, pass.path + ": " + pass.prefix + "attention_mask");
    const bool only_this_call = before != nullptr && width == pass.tokens && known > 0;
    if (!only_this_call) pass.width = width;
    columns.resize(B * static_cast<std::size_t>(pass.width), true);
    const std::int64_t first = pass.width - width;
    for (std::int64_t row = 0; row < pass.rows; ++row) {
      for (std::int64_t column = 0; column < first; ++column)
        columns[static_cast<std::size_t>(row * pass.width + column)] =
            before->columns[static_cast<std::size_t>(row * before->width + column)];
      for (std::int64_t column = 0; column < width; ++column)
        columns[static_cast<std::size_t>(row * pass.width + first + column)] =
            ones[static_cast<std::size_t>(row * width + column)] != 0;
    }
  } else {
    columns.resize(B * static_cast<std::size_t>(pass.width), true);
    if (before != nullptr) {
      for (std::int64_t row = 0; row < pass.rows; ++row) {
        for (std::int64_t column = 0; column < known; ++column)
          columns[static_cast<std::size_t>(row * pass.width + column)] =
              before->columns[static_cast<std::size_t>(row * known + column)];
      }
    }
  }
  pass.columns = std::move(columns);
  pass.content.resize(B * static_cast<std::size_t>(pass.tokens));
  pass.past.assign(B, 0);
  const std::int64_t cached = pass.width - pass.tokens;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    for (std::int64_t column = 0; column < pass.width; ++column) {
      const bool one = pass.columns[static_cast<std::size_t>(row * pass.width + column)];
      if (column >= cached) pass.content[pass.at(row, column - cached)] = one;
      if (column < cached && one) ++pass.past[static_cast<std::size_t>(row)];
    }
  }
}

/// Content counts on from the past of its row, or from the start of its document.
void count_due(Pass& pass) {
  pass.axes = 1;
  pass.due.assign(static_cast<std::size_t>(pass.rows * pass.tokens), 0);
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    std::int64_t next = pass.past[static_cast<std::size_t>(row)];
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      const std::size_t at = pass.at(row, token);
      if (!pass.content[at]) continue;
      if (!pass.document.empty() && token > 0 && pass.document[at] != pass.document[at - 1]) next = 0;
      pass.due[at] = next++;
    }
    pass.seen = std::max(pass.seen, next);
  }
}

void mark_short_rows(Pass& pass, const StackPositions& positions, const Recipe& recipe) {
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    std::int64_t seen = pass.past[static_cast<std::size_t>(row)];
    for (std::int64_t token = 0; token < pass.tokens; ++token)
      seen += pass.content[pass.at(row, token)] ? 1 : 0;
    pass.too_short.push_back(seen < pass.seen && plan(positions, recipe, {.seen = seen}) != *pass.plan);
  }
}

void read_stated(Pass& pass) {
  const TensorRef stated = pass.find(names::kPositionIds);
  if (stated.data == nullptr) return;
  if (stated.rank == 3) {
    require_shape(pass, names::kPositionIds, stated, {-1, pass.rows, pass.tokens});
    pass.stated_axes = stated.shape[0];
  } else {
    // one row of positions may stand for all rows
    require_shape(pass, names::kPositionIds, stated, {-1, pass.tokens});
    if (stated.shape[0] != 1) require_shape(pass, names::kPositionIds, stated, {pass.rows, pass.tokens});
    pass.stated_axes = 1;
  }
  pass.stated = integers_of(stated, pass.path + ": " + pass.prefix + "position_ids");
  const auto due = static_cast<std::size_t>(pass.rows * pass.tokens);
  if (stated.rank == 2 && stated.shape[0] == 1) {
    const std::vector<std::int64_t> row = pass.stated;
    for (std::size_t have = row.size(); have < due; have += row.size())
      pass.stated.insert(pass.stated.end(), row.begin(), row.end());
  }
}

/// Attention saw this pass's tokens alone: a cache did not precede, the text was fed again or another one
/// began.
bool begins_anew(const Pass& pass) {
  if (pass.tokens < 2) return false;
  bool seen = false;
  for (std::int64_t layer = 0; layer < 256; ++layer) {
    const TensorRef keys = pass.find(names::layer(layer, names::Layer::cache_k));
    if (keys.data == nullptr || keys.rank != 4) continue;
    if (keys.shape[1] != pass.tokens) return false;
    seen = true;
  }
  return seen;
}

void read_passes(Trace& trace, const std::string& stack_prefix) {
  trace.passes.reserve(static_cast<std::size_t>(trace.reader.steps()));
  for (std::int64_t step = 0; step < trace.reader.steps(); ++step) {
    Pass pass;
    pass.trace = &trace.reader;
    pass.path = trace.path;
    pass.prefix = names::step_prefix(step) + stack_prefix;
    pass.step = step;
    read_shape(pass);
    if (pass.rows == 0) read_table_shape(pass);
    if (pass.rows == 0 || pass.tokens == 0) continue;
    const Pass* const before = trace.passes.empty() || begins_anew(pass) ? nullptr : &trace.passes.back();
    if (before != nullptr && before->rows != pass.rows) {
      throw FileError(trace.path, fmt::format("every pass has the rows of the first, {}: step {} has {}",
                                              before->rows, step, pass.rows));
    }
    read_mask(pass, before);
    const TensorRef segments = pass.find(names::kSegmentIds);
    if (segments.data != nullptr) {
      require_shape(pass, names::kSegmentIds, segments, {pass.rows, pass.tokens});
      pass.document = integers_of(segments, trace.path + ": segment_ids");
    }
    count_due(pass);
    read_stated(pass);
    trace.passes.push_back(std::move(pass));
  }
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    if (name_of(dtype) == name) return dtype;
  }
  return DType::f32;
}

}  // namespace

void open_trace(Evidence& evidence, const std::string& path) {
  const TraceReader probe(path);
  const std::vector<std::string> recorded = probe.names();
  const bool both = std::any_of(recorded.begin(), recorded.end(),
                                [](const std::string& name) { return name.starts_with("encoder."); });
  for (const Stack stack : {Stack::decoder, Stack::encoder}) {
    if (stack == Stack::encoder && !both) continue;
    auto trace = std::make_unique<Trace>(
        Trace{path, TraceReader(path), dtype_named(probe.metadata("locant.dtype")), stack, {}});
    if (!both && probe.metadata("locant.stack") == "encoder") trace->stack = Stack::encoder;
    read_passes(*trace, stack == Stack::encoder ? names::stack_prefix(stack) : std::string());
    evidence.traces.push_back(std::move(trace));
  }
}

Values values_of(const TensorRef& tensor, const std::string& what) {
  if (!is_float(tensor.dtype))
    throw FileError(what, fmt::format("floats are needed, got {}", name_of(tensor.dtype)));
  Values values;
  values.dtype = tensor.dtype;
  values.shape.assign(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank));
  values.data.resize(static_cast<std::size_t>(tensor.size()));
  for (std::size_t i = 0; i < values.data.size(); ++i)
    values.data[i] = float_at(tensor, static_cast<std::int64_t>(i));
  return values;
}

std::vector<std::int64_t> integers_of(const TensorRef& tensor, const std::string& what) {
  if (is_float(tensor.dtype))
    throw FileError(what, fmt::format("integers are needed, got {}", name_of(tensor.dtype)));
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = integer_at(tensor, static_cast<std::int64_t>(i));
  return values;
}

TensorRef recorded(const TraceReader& trace, std::string_view name) {
  const TensorRef tensor = trace.find(name);
  return tensor.data != nullptr && tensor.size() == 0 ? TensorRef() : tensor;
}

double half_step(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

double unit_roundoff(DType dtype) noexcept {
  // what bf16 rounds off at the upper end of a binade: budgets are multiples, and measured on recorded models
  return dtype == DType::bf16 ? half_step(dtype) / 2 : half_step(dtype);
}

const StackPositions* Evidence::positions(const Trace& trace) const {
  if (spec == nullptr) return nullptr;
  if (spec->positions.stack == trace.stack || spec->others.empty()) return &spec->positions;
  for (const StackSpec& other : spec->others) {
    if (other.positions.stack == trace.stack) return &other.positions;
  }
  return nullptr;
}

const std::vector<AttentionSpec>* Evidence::attention(const Trace& trace) const {
  if (spec == nullptr) return nullptr;
  if (spec->generic && trace.stack == Stack::encoder) return &seen_both_ways;
  if (spec->positions.stack == trace.stack || spec->others.empty()) return &spec->attention;
  for (const StackSpec& other : spec->others) {
    if (other.positions.stack == trace.stack) return &other.attention;
  }
  return nullptr;
}

Evidence gather(const CheckQuery& query) {
  Evidence evidence;
  evidence.spec = query.spec;
  const std::string weights = query.weights.empty() ? std::string() : weights_in(query.weights);
  // GGUF's matrices are blocks: their headers are facts, their rows are not read
  if (!weights.empty() && !weights.ends_with(".gguf")) evidence.weights.emplace(weights);
  if (query.spec != nullptr)
    evidence.facts = facts_of(*query.spec, {.recipe = query.recipe, .weights = weights});
  if (query.spec != nullptr) evidence.seen_both_ways = query.spec->attention;
  for (AttentionSpec& attention : evidence.seen_both_ways) attention.bidirectional = true;
  const std::string recipe = evidence.facts ? evidence.facts->recipe : query.recipe;
  evidence.recipe = &find_recipe(recipe.empty() ? "hf" : recipe);
  std::error_code error;
  for (const std::string& path : query.traces) {
    if (std::filesystem::is_directory(path, error)) {
      open_ranks(evidence, path);
    } else {
      open_trace(evidence, path);
    }
  }
  for (const auto& trace : evidence.traces) {
    count_vision(evidence, *trace);
    const StackPositions* const positions = evidence.positions(*trace);
    if (positions == nullptr) continue;
    for (Pass& pass : trace->passes) {
      pass.plan = plan(*positions, *evidence.recipe, {.seen = pass.seen});
      mark_short_rows(pass, *positions, *evidence.recipe);
    }
    follow_shifts(*trace);
  }
  return evidence;
}

}  // namespace locant::check_room
