// SPDX-License-Identifier: Apache-2.0
// text.h: ids <-> text, by Locant's own readers or by an object of Python.
#include "locant/text.h"

#include <fmt/format.h>

#include <utility>

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
  const nb::bytes given(words.data(), words.size());
  return nb::cast<std::vector<std::int64_t>>(
      object_.attr("encode")(given.attr("decode")("utf-8", "replace")));
}
std::string PythonTokenizer::decode(std::span<const std::int64_t> ids) const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::string>(object_.attr("decode")(std::vector<std::int64_t>(ids.begin(), ids.end())));
}
std::string PythonTokenizer::piece(std::int64_t id) const {
  const nb::gil_scoped_acquire held;
  return nb::cast<std::string>(object_.attr("piece")(id));
}

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
      [](const std::string& directory) {
        OpenedTokenizer opened = open_tokenizer(directory);
        nb::object tokenizer = opened.tokenizer ? nb::cast(std::move(opened.tokenizer)) : nb::none();
        return nb::make_tuple(tokenizer, opened.why_not);
      },
      nb::arg("directory"), nb::sig("def open_tokenizer(directory: str) -> tuple[Tokenizer | None, str]"),
      "A tokenizer, or the sentence that says why there is none.");
}

}  // namespace locant::python
