// SPDX-License-Identifier: Apache-2.0
// ops.h: the operations on the caller's own memory. Outputs are given by the caller; batches are parts of
// axis 0.
#include "locant/ops.h"

#include <fmt/format.h>

#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace locant::python {
namespace {

void embed_into(nb::handle table, nb::handle ids, nb::handle out, float scale) {
  const Array rows = Array::to_read(table, "embed", "table");
  const Array tokens = Array::to_read(ids, "embed", "ids");
  const Array target = Array::to_write(out, "embed", "out");
  const EmbedCall call{.ids = tokens.flat<const std::int64_t>(),
                       .table = matrix(rows.ref()),
                       .scale = scale,
                       .out = target.rows<float>()};
  const auto pool = threads();
  const nb::gil_scoped_release released;
  embed(call, *pool);
}

void add_rows_into(nb::handle table, nb::handle ids, nb::handle out) {
  const Array rows = Array::to_read(table, "add_rows", "table");
  const Array tokens = Array::to_read(ids, "add_rows", "rows");
  const Array target = Array::to_write(out, "add_rows", "out");
  const AddRowsCall call{
      .rows = tokens.flat<const std::int64_t>(), .table = matrix(rows.ref()), .out = target.rows<float>()};
  const auto pool = threads();
  const nb::gil_scoped_release released;
  add_rows(call, *pool);
}

Pairing pairing_named(std::string_view name) {
  if (name == "half") return Pairing::half;
  if (name == "interleaved") return Pairing::interleaved;
  throw SpecError(fmt::format("rotate: pairing is half or interleaved, got \"{}\"", name));
}

Direction direction_named(std::string_view name) {
  if (name == "forward") return Direction::forward;
  if (name == "inverse") return Direction::inverse;
  throw SpecError(fmt::format("rotate: direction is forward or inverse, got \"{}\"", name));
}

struct Rotated {
  const Array& x;
  const Array& cos;
  const Array& sin;
  const Array& out;
};

template <class T>
void rotate_as(const Rotated& arrays, const RotateShape& shape, ThreadPool& pool) {
  const auto& [x, cos, sin, out] = arrays;
  if (x.rank() == 3) {
    rotate({.x = x.view<const T, 3>(),
            .cos = cos.view<const float, 2>(),
            .sin = sin.view<const float, 2>(),
            .shape = shape,
            .out = out.view<T, 3>()},
           pool);
    return;
  }
  if (x.rank() != 4) x.wrong_rank("3 or 4");
  if (out.rank() != 4) out.wrong_rank("4");
  const std::int64_t rows = x.extent(0);
  for (const auto& [array, name] : {std::pair(&cos, "cos"), std::pair(&sin, "sin"), std::pair(&out, "out")}) {
    if (array->rank() >= x.rank() - static_cast<std::size_t>(array != &out) && array->extent(0) != rows)
      throw SpecError(fmt::format("rotate: {} has {} rows, x has {}", name, array->extent(0), rows));
  }
  const auto table = [](const Array& array, std::int64_t row) {
    return array.rank() == 2 ? array.view<const float, 2>() : array.part<const float, 2>(row);
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    rotate({.x = x.part<const T, 3>(row),
            .cos = table(cos, row),
            .sin = table(sin, row),
            .shape = shape,
            .out = out.part<T, 3>(row)},
           pool);
  }
}

void rotate_into(nb::handle x, nb::handle cos, nb::handle sin, nb::handle out, std::string_view read,
                 std::string_view write, std::int64_t offset, std::string_view direction) {
  const Array heads = Array::to_read(x, "rotate", "x");
  const Array c = Array::to_read(cos, "rotate", "cos");
  const Array s = Array::to_read(sin, "rotate", "sin");
  const Array target = Array::to_write(out, "rotate", "out");
  const RotateShape shape{.read = pairing_named(read),
                          .write = pairing_named(write),
                          .offset = offset,
                          .direction = direction_named(direction)};
  const Rotated arrays{heads, c, s, target};
  const auto pool = threads();
  const nb::gil_scoped_release released;
  switch (heads.ref().dtype) {
    case DType::f32:
      return rotate_as<float>(arrays, shape, *pool);
    case DType::f16:
      return rotate_as<Half>(arrays, shape, *pool);
    case DType::bf16:
      return rotate_as<BFloat16>(arrays, shape, *pool);
    default:
      throw SpecError(fmt::format("rotate: x is {}, expected f32, f16 or bf16", name_of(heads.ref().dtype)));
  }
}

void project_into(nb::handle x, nb::handle weight, const std::optional<nb::object>& bias, nb::handle out,
                  float scale) {
  const Array states = Array::to_read(x, "project", "x");
  const Array rows = Array::to_read(weight, "project", "weight");
  const Array target = Array::to_write(out, "project", "out");
  std::optional<Array> added;
  if (bias) added = Array::to_read(*bias, "project", "bias");
  ProjectCall call{.x = states.rows<const float>(),
                   .weight = matrix(rows.ref()),
                   .scale = scale,
                   .out = target.rows<float>()};
  if (added) call.bias = added->view<const float, 1>();
  const auto pool = threads();
  const nb::gil_scoped_release released;
  project(call, *pool);
}

/// Keys or values [heads, slots, width] of row `row`, without gaps.
CacheTensor cache_of(const Array& array, std::int64_t row) {
  array.need_contiguous();
  const std::size_t first = array.rank() - 3;
  const std::int64_t elements = array.extent(first) * array.extent(first + 1) * array.extent(first + 2);
  const auto* const data = static_cast<const std::byte*>(array.ref().data) +
                           row * elements * static_cast<std::int64_t>(size_of(array.ref().dtype));
  return {.data = const_cast<std::byte*>(data),  // attend() only reads it
          .dtype = array.ref().dtype,
          .heads = array.extent(first),
          .capacity = array.extent(first + 1),
          .width = array.extent(first + 2)};
}

struct AttendArrays {
  const Array& q;
  const Array& keys;
  const Array& values;
  const Array& out;
  const std::optional<Array>& slopes;
  const std::optional<Array>& query_positions;
  const std::optional<Array>& key_positions;
  const std::optional<Array>& scores;
};

AttendCall attend_call(const AttendArrays& a, std::int64_t row, std::int64_t first_slot, float scale) {
  const bool batch = a.q.rank() == 4;
  AttendCall call{.q = batch ? a.q.part<const float, 3>(row) : a.q.view<const float, 3>(),
                  .keys = cache_of(a.keys, row),
                  .values = cache_of(a.values, row),
                  .first_slot = first_slot,
                  .scale = scale,
                  .out = batch ? a.out.part<float, 3>(row) : a.out.view<float, 3>()};
  const auto positions = [&](const Array& array) {
    return array.rank() == 1 ? array.view<const std::int64_t, 1>() : array.part<const std::int64_t, 1>(row);
  };
  if (a.slopes) call.slopes = a.slopes->view<const float, 1>();
  if (a.query_positions) call.query_positions = positions(*a.query_positions);
  if (a.key_positions) call.key_positions = positions(*a.key_positions);
  if (a.scores) call.scores = batch ? a.scores->part<float, 3>(row) : a.scores->view<float, 3>();
  return call;
}

void check_batch(const AttendArrays& a) {
  const std::size_t rank = a.q.rank();
  if (rank != 3 && rank != 4) a.q.wrong_rank("3 or 4");
  for (const Array* const array : {&a.keys, &a.values, &a.out}) {
    if (array->rank() != rank) array->wrong_rank(std::to_string(rank));
    if (rank == 4 && array->extent(0) != a.q.extent(0))
      throw SpecError(
          fmt::format("attend: q has {} rows, another tensor {}", a.q.extent(0), array->extent(0)));
  }
  for (const auto* const array : {&a.query_positions, &a.key_positions}) {
    if (*array && (*array)->rank() == 2 && (rank != 4 || (*array)->extent(0) != a.q.extent(0)))
      throw SpecError("attend: positions have other rows than q");
  }
  if (a.scores && (a.scores->rank() != rank || (rank == 4 && a.scores->extent(0) != a.q.extent(0))))
    throw SpecError("attend: scores have other rows than q");
}

void attend_into(nb::handle q, nb::handle keys, nb::handle values, nb::handle out, std::int64_t first_slot,
                 float scale, const std::optional<nb::object>& slopes,
                 const std::optional<nb::object>& query_positions,
                 const std::optional<nb::object>& key_positions, const std::optional<nb::object>& scores) {
  const auto optional = [](const std::optional<nb::object>& object, std::string_view name) {
    std::optional<Array> array;
    if (object) array = Array::to_read(*object, "attend", name);
    return array;
  };
  const Array query = Array::to_read(q, "attend", "q");
  const Array key = Array::to_read(keys, "attend", "keys");
  const Array value = Array::to_read(values, "attend", "values");
  const Array target = Array::to_write(out, "attend", "out");
  const std::optional<Array> slope = optional(slopes, "slopes");
  const std::optional<Array> at_queries = optional(query_positions, "query_positions");
  const std::optional<Array> at_keys = optional(key_positions, "key_positions");
  std::optional<Array> kept;
  if (scores) kept = Array::to_write(*scores, "attend", "scores");
  const AttendArrays arrays{query, key, value, target, slope, at_queries, at_keys, kept};
  check_batch(arrays);
  std::vector<AttendCall> calls;
  const std::int64_t rows = query.rank() == 4 ? query.extent(0) : 1;
  for (std::int64_t row = 0; row < rows; ++row) calls.push_back(attend_call(arrays, row, first_slot, scale));
  const auto pool = threads();
  const nb::gil_scoped_release released;
  attend(calls, *pool);
}

}  // namespace

void bind_ops(nb::module_& m) {
  m.def("embed_into", embed_into, nb::arg("table"), nb::arg("ids"), nb::arg("out"), nb::arg("scale"));
  m.def("add_rows_into", add_rows_into, nb::arg("table"), nb::arg("rows"), nb::arg("out"));
  m.def("rotate_into", rotate_into, nb::arg("x"), nb::arg("cos"), nb::arg("sin"), nb::arg("out"),
        nb::arg("read"), nb::arg("write"), nb::arg("offset"), nb::arg("direction"));
  m.def("project_into", project_into, nb::arg("x"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("out"),
        nb::arg("scale"));
  m.def("attend_into", attend_into, nb::arg("q"), nb::arg("keys"), nb::arg("values"), nb::arg("out"),
        nb::arg("first_slot"), nb::arg("scale"), nb::arg("slopes").none(), nb::arg("query_positions").none(),
        nb::arg("key_positions").none(), nb::arg("scores").none());
}

}  // namespace locant::python
