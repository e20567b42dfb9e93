// SPDX-License-Identifier: Apache-2.0
#include "check/matrix.h"

namespace locant::check_room {

std::vector<float> Matrix::row(std::int64_t index) const {
  TensorRef part = stored_->tensor;
  part.rank = 1;
  part.shape[0] = columns();
  part.strides[0] = 1;
  part.data = static_cast<const std::byte*>(stored_->tensor.data) +
              static_cast<std::size_t>(index * columns()) * size_of(part.dtype);
  return values_of(part, stored_->path + ": " + stored_->name).data;
}

std::optional<Matrix> matrix_named(const Evidence& evidence, const std::string& name) {
  const StoredTensor* const stored =
      evidence.weights && !name.empty() ? evidence.weights->find(name) : nullptr;
  if (stored == nullptr || stored->tensor.rank != 2 || !is_float(stored->tensor.dtype)) return std::nullopt;
  return Matrix(*stored);
}

std::vector<Matrix> matrices_of(const Evidence& evidence, std::int64_t columns, std::int64_t least_rows) {
  std::vector<Matrix> all;
  if (!evidence.weights) return all;
  for (const StoredTensor& stored : evidence.weights->tensors()) {
    if (stored.tensor.rank == 2 && stored.tensor.shape[1] == columns &&
        stored.tensor.shape[0] >= least_rows && is_float(stored.tensor.dtype))
      all.emplace_back(stored);
  }
  return all;
}

std::vector<Matrix> position_tables(const Evidence& evidence, std::int64_t columns, Stack stack) {
  const auto holds = [](const std::string& name, std::string_view part) {
    return name.find(part) != std::string::npos;
  };
  const bool encoder = stack == Stack::encoder;
  std::vector<Matrix> tables;
  for (const Matrix& matrix : matrices_of(evidence, columns, 1)) {
    const std::string& name = matrix.name();
    const bool other =
        holds(name, encoder ? "decoder." : "encoder.") && !holds(name, encoder ? "encoder." : "decoder.");
    const bool of_both = evidence.spec != nullptr && !evidence.spec->others.empty();
    if ((holds(name, "position") || holds(name, "wpe") || holds(name, "pos_emb")) && !(of_both && other))
      tables.push_back(matrix);
  }
  return tables;
}

}  // namespace locant::check_room
