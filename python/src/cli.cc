// SPDX-License-Identifier: Apache-2.0
// The command line inside Python: the same `locant`, with the tokenizers and runtimes that Python has.
#include "cli/cli.h"

#include <fmt/format.h>

#include <utility>

#include "cli/arguments.h"
#include "cli/models.h"
#include "python_runtime.h"
#include "python_text.h"
#include "streams.h"

namespace locant::python {
namespace {

nb::module_ host_module() {
  return nb::module_::import_("locant.host");
}

/// What the command prints of an exception: exit 2 with one line.
[[noreturn]] void refuse(const nb::python_error& error) {
  throw cli::UsageError(nb::cast<std::string>(host_module().attr("sentence")(error.value())));
}

template <class F>
auto or_refuse(F&& call) {
  try {
    return call();
  } catch (const nb::python_error& error) {
    refuse(error);
  }
}

/// A session whose exceptions are sentences of the command.
class ToldSession final : public RuntimeSession {
 public:
  explicit ToldSession(std::unique_ptr<RuntimeSession> session) : session_(std::move(session)) {}
  void forward(const ForwardCall& call, View<float, 3> logits) override {
    const nb::gil_scoped_acquire held;
    or_refuse([&] { session_->forward(call, logits); });
  }
  [[nodiscard]] std::unique_ptr<RuntimeSession> fork() const override {
    const nb::gil_scoped_acquire held;
    auto copy = or_refuse([&] { return session_->fork(); });
    if (copy == nullptr) return nullptr;
    return std::make_unique<ToldSession>(std::move(copy));
  }

 private:
  std::unique_ptr<RuntimeSession> session_;
};

class ToldRuntime final : public Runtime {
 public:
  explicit ToldRuntime(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  [[nodiscard]] std::string name() const override { return runtime_->name(); }
  [[nodiscard]] std::int64_t vocab() const override { return runtime_->vocab(); }
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t capacity) override {
    const nb::gil_scoped_acquire held;
    return std::make_unique<ToldSession>(or_refuse([&] { return runtime_->open(capacity); }));
  }
  [[nodiscard]] std::unique_ptr<Runtime> with(const PositionSpec& spec) override {
    const nb::gil_scoped_acquire held;
    auto other = or_refuse([&] { return runtime_->with(spec); });
    if (other == nullptr) return nullptr;
    return std::make_unique<ToldRuntime>(std::move(other));
  }

 private:
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace

std::string package_place() {
  const nb::object place = host_module().attr("PLACE");
  return nb::cast<std::string>(place);
}

OpenedTokenizer PythonHost::open_tokenizer(const std::string& model) {
  OpenedTokenizer opened = locant::open_tokenizer(model);
  if (opened.tokenizer != nullptr && opened.why_not.empty()) return opened;
  const nb::gil_scoped_acquire held;
  return or_refuse([&]() -> OpenedTokenizer {
    const auto found = nb::cast<nb::tuple>(
        nb::module_::import_("locant.text").attr("open_with_tokenizers")(model, opened.why_not));
    nb::object tokenizer = found[0];
    if (tokenizer.is_none())  // what only decodes still does
      return {.tokenizer = std::move(opened.tokenizer), .why_not = nb::cast<std::string>(found[1])};
    return {.tokenizer = std::make_unique<PythonTokenizer>(std::move(tokenizer)), .why_not = {}};
  });
}

void PythonHost::record(const cli::RecordJob& job) {
  const nb::gil_scoped_acquire held;
  or_refuse([&] {
    using namespace nb::literals;
    host_module().attr("record")("runtime"_a = job.runtime, "model"_a = job.model, "dump"_a = job.dump,
                                 "output"_a = job.output, "ids"_a = job.ids, "steps"_a = job.steps,
                                 "pad"_a = job.pad);
  });
}

std::unique_ptr<Runtime> PythonHost::open_runtime(const std::string& name, const std::string& model) {
  const nb::gil_scoped_acquire held;
  return or_refuse([&]() -> std::unique_ptr<Runtime> {
    nb::object opened = host_module().attr("open_runtime")(name, model);
    return std::make_unique<ToldRuntime>(std::make_unique<PythonRuntime>(std::move(opened)));
  });
}

void bind_cli(nb::module_& m) {
  m.def(
      "run_command",
      [](const std::vector<std::string>& args, int out, int err) {
        DescriptorHost host(out, err);
        const nb::gil_scoped_release released;
        return cli::run(args, host);
      },
      nb::arg("args"), nb::arg("out"), nb::arg("err"),
      "The command `locant` on two file descriptors; returns its exit status.");
  m.def(
      "command_text",
      [](const std::vector<std::string>& args) {
        TextHost host;
        int status = 0;
        {
          const nb::gil_scoped_release released;
          status = cli::run(args, host);
        }
        const auto decoded = [](const std::string& bytes) {
          return nb::bytes(bytes.data(), bytes.size()).attr("decode")("utf-8", "replace");
        };
        return nb::make_tuple(status, decoded(host.out_text()), decoded(host.err_text()));
      },
      nb::arg("args"),
      nb::sig("def command_text(args: collections.abc.Sequence[str]) -> tuple[int, str, str]"),
      "The command `locant`: exit status, what it printed, what it noted.");
  m.def(
      "find_model", [](const std::string& name) { return cli::find_model_file(name, TextHost()); },
      nb::arg("name"), "A path that exists, a folder's only .gguf file, or the path of a bundled model.");
}

}  // namespace locant::python
