// SPDX-License-Identifier: Apache-2.0
// text.h: ids <-> text, by Locant's own readers or by an object of Python.
#include "locant/text.h"

#include <fmt/format.h>

#include <utility>

#include "locant/formats.h"
#include "python_text.h"

namespace locant::python {

PythonTokenizer::PythonTokenizer(nb::object object) : object_(std::move(object)) {}
PythonTokenizer::~PythonTokenizer() {
  const nb::gil_scoped_acquire held;
  object_.reset();
}
std::string PythonTokenizer::kind() const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::string>(object_.attr("kind"));
}
std::int64_t PythonTokenizer::vocab() const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::int64_t>(object_.attr("vocab"));
}
std::vector<std::int64_t> PythonTokenizer::encode(std::string_view words) const {
  const nb::gil_scoped_acquire held;
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "strict");
  if (decoded == nullptr) {
    PyErr_Clear();
    throw SpecError("text: a text must be UTF-8, this one is not");
  }
  return nb::cast<std::vector<std::int64_t>>(object_.attr("encode")(nb::steal(decoded)));
}
std::string PythonTokenizer::decode(std::span<const std::int64_t> ids) const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::string>(object_.attr("decode")(std::vector<std::int64_t>(ids.begin(), ids.end())));
}
std::string PythonTokenizer::piece(std::int64_t id) const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::string>(object_.attr("piece")(id));
}

namespace {

nb::object as_object(const GgufArray& array);

/// Text that is no UTF-8 keeps its bytes as surrogates.
nb::object as_object(const std::string& words) {
  return nb::bytes(words.data(), words.size()).attr("decode")("utf-8", "surrogateescape");
}
template <class T>
nb::object as_object(const T& value) {
  return nb::cast(value);
}
nb::object as_object(const GgufArray& array) {
  return std::visit(
      [](const auto& values) -> nb::object {
        nb::list list;
        for (const auto& value : values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::vector<bool>>) {
            list.append(nb::cast(static_cast<bool>(value)));
          } else {
            list.append(as_object(value));
          }
        }
        return list;
      },
      array.values);
}

nb::dict gguf_values(const std::string& path, const std::string& prefix) {
  const GgufFile file(path);
  nb::dict found;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string rest = key.substr(prefix.size());
    found[nb::cast(rest)] = std::visit([](const auto& one) { return as_object(one); }, value.value);
  }
  return found;
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<Tokenizer>(m, "Tokenizer", "Ids to text and back, by Locant's own reader.")
      .def_prop_ro("kind", &Tokenizer::kind, "\"byte-level\", \"sentencepiece\".")
      .def_prop_ro("vocab", &Tokenizer::vocab, "Ids it can make, special ones included.")
      .def(
          "encode", [](const Tokenizer& t, const std::string& words) { return t.encode(words); },
          nb::arg("text"),
          "The ids of a prompt, with the special tokens that the model's own tokenizer puts in front.")
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<std::int64_t>& ids) {
            const std::string bytes = t.decode(ids);
            return nb::bytes(bytes.data(), bytes.size()).attr("decode")("utf-8", "replace");
          },
          nb::arg("ids"), nb::sig("def decode(self, ids: collections.abc.Sequence[int]) -> str"),
          "The text of ids, special tokens left out.")
      .def("piece", &Tokenizer::piece, nb::arg("id"), "One token as a person would recognise it.");
  m.def(
      "open_tokenizer",
      [](const std::string& model) {
        OpenedTokenizer opened = open_tokenizer(model);
        nb::object tokenizer = opened.tokenizer ? nb::cast(std::move(opened.tokenizer)) : nb::none();
        return nb::make_tuple(tokenizer, opened.why_not);
      },
      nb::arg("model"), nb::sig("def open_tokenizer(model: str) -> tuple[Tokenizer | None, str]"),
      "A tokenizer, or the sentence that says why there is none; both for one that only decodes.");
  m.def("gguf_values", gguf_values, nb::arg("path"), nb::arg("prefix"),
        nb::sig("def gguf_values(path: str, prefix: str) -> dict[str, typing.Any]"),
        "The metadata of a .gguf file under a prefix, by the rest of their keys.");
}

}  // namespace locant::python
