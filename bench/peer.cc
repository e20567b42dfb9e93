// SPDX-License-Identifier: Apache-2.0
#include "peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace locant::bench {
namespace {

constexpr double kPatience = 240;  // seconds for an answer; compilers and loading take their time

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("died of {}", strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Peer::Peer(PeerCommand command) : command_(std::move(command)) {
  start();
}

Peer::~Peer() {
  stop();
}

void Peer::start() {
  int to[2], from[2];
  pending_.clear();
  if (access(command_.arguments.front().c_str(), X_OK) != 0 || pipe2(to, O_CLOEXEC) != 0) return;
  if (pipe2(from, O_CLOEXEC) != 0) return;
  std::vector<char*> arguments;
  for (const std::string& text : command_.arguments) arguments.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  const int child = fork();
  if (child < 0) return;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    for (const auto& [name, value] : command_.environment) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
    execv(arguments.front(), arguments.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  std::signal(SIGPIPE, SIG_IGN);
  in_ = to[1];
  out_ = from[0];
  process_ = child;
}

void Peer::stop() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  in_ = out_ = -1;
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
}

// One line there and one back; "" and failure() when the process ended or took too long.
std::string Peer::ask(const std::string& line, double patience_s) {
  failure_.clear();
  if (process_ <= 0) {
    failure_ = "is not running";
    return {};
  }
  kill(process_, SIGCONT);
  const std::string request = line + "\n";
  const auto end_of_patience = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  bool alive = write(in_, request.data(), request.size()) == static_cast<ssize_t>(request.size());
  std::size_t end = pending_.find('\n');
  char piece[4096];
  while (alive && end == std::string::npos) {
    const std::chrono::duration<double, std::milli> left = end_of_patience - std::chrono::steady_clock::now();
    pollfd ready{.fd = out_, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count()) + 1) == 0) {
      failure_ = fmt::format("gave no answer in {:.0f} s", patience_s);
      stop();
      return {};
    }
    const ssize_t got = read(out_, piece, sizeof piece);
    alive = got > 0;
    if (alive) pending_.append(piece, static_cast<std::size_t>(got));
    end = pending_.find('\n');
  }
  if (!alive) {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    failure_ = how_it_ended(status);
    stop();
    return {};
  }
  kill(process_, SIGSTOP);
  std::string answer = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return answer;
}

std::string Peer::greet() {
  const auto answer = nlohmann::json::parse(ask(R"({"hello": true})", kPatience), nullptr, false);
  if (answer.is_object() && answer.contains("name")) {
    name_ = answer["name"].get<std::string>();
    return "";
  }
  if (answer.is_object() && answer.contains("missing")) return answer["missing"].get<std::string>();
  return failure_.empty() ? "greets in words that are not known" : failure_;
}

Prepared Peer::prepare(const std::string& request) {
  Prepared result;
  if (process_ <= 0) {
    start();
    result.failure = greet();
    if (!result.failure.empty()) return result;
  }
  const auto answer = nlohmann::json::parse(ask(request, kPatience), nullptr, false);
  result.failure = failure_;
  if (!answer.is_object()) return result;
  result.failure = answer.value("failure", "");
  for (const auto& variant : answer.value("variants", nlohmann::json::array())) {
    result.variants.push_back({.name = variant.value("name", command_.label),
                               .note = variant.value("note", ""),
                               .error = variant.value("error", -1.0),
                               .wide = variant.value("wide", false)});
  }
  return result;
}

std::optional<double> Peer::slice(std::size_t variant, double seconds) {
  const auto answer = nlohmann::json::parse(
      ask(fmt::format(R"({{"slice": {}, "variant": {}}})", seconds, variant), kPatience), nullptr, false);
  if (answer.is_object() && answer.contains("failure")) failure_ = answer["failure"].get<std::string>();
  if (!answer.is_object() || !answer.contains("ns")) return std::nullopt;
  return answer["ns"].get<double>();
}

Environment environment_for(std::string_view target) {
  if (target == "AVX2") {
    return {{"ATEN_CPU_CAPABILITY", "avx2"},
            {"ONEDNN_MAX_CPU_ISA", "AVX2"},
            {"DNNL_MAX_CPU_ISA", "AVX2"},
            {"MKL_ENABLE_INSTRUCTIONS", "AVX2"},
            {"OPENBLAS_CORETYPE", "Haswell"}};
  }
  if (target == "SSE4") {
    return {{"ATEN_CPU_CAPABILITY", "default"},
            {"ONEDNN_MAX_CPU_ISA", "SSE41"},
            {"DNNL_MAX_CPU_ISA", "SSE41"},
            {"MKL_ENABLE_INSTRUCTIONS", "SSE4_2"},
            {"OPENBLAS_CORETYPE", "Nehalem"}};
  }
  return {};
}

namespace {

struct Known {
  const char* label;
  const char* script;
};
constexpr Known kKnown[] = {{"torch", "torch_peer.py"},
                            {"onnxruntime", "onnxruntime_peer.py"},
                            {"openvino", "openvino_peer.py"},
                            {"ggml", "ggml_peer.py"},
                            {"llama.cpp", "llama_peer.py"},
                            {"openblas", "openblas_peer.py"},
                            {"libm", ""}};

Environment environment_of(const PeerSearch& search) {
  const std::string threads = fmt::format("{}", search.threads);
  // A core type or cache size set for other programs would slow OpenBLAS here.
  Environment environment{{"OMP_NUM_THREADS", threads},
                          {"OPENBLAS_NUM_THREADS", threads},
                          {"MKL_NUM_THREADS", threads},
                          {"OPENBLAS_CORETYPE", ""},
                          {"OPENBLAS_L2_SIZE", ""},
                          {"PYTHONDONTWRITEBYTECODE", "1"},
                          {"HF_HUB_OFFLINE", "1"},
                          {"LOCANT_BENCH_TARGET", search.target},
                          {"LOCANT_BENCH_QUICK", search.quick ? "1" : ""}};
  for (auto& entry : environment_for(search.target)) environment.push_back(std::move(entry));
  return environment;
}

std::vector<PeerCommand> commands_of(const Known& known, const PeerSearch& search) {
  const std::string threads = fmt::format("{}", search.threads);
  const Environment environment = environment_of(search);
  if (*known.script == '\0') return {{known.label, {LOCANT_BENCH_LIBM, threads}, environment}};
  std::vector<std::string> interpreters{search.interpreter};
  if (search.interpreter.empty()) {
    interpreters = {LOCANT_SOURCE_DIR "/.venv/bin/python", LOCANT_SOURCE_DIR "/.venv-peers/bin/python"};
    // torch and transformers are .venv's, all others are .venv-peers'
    if (std::string_view(known.label) != "torch") std::swap(interpreters[0], interpreters[1]);
  }
  std::vector<PeerCommand> commands;
  for (const std::string& interpreter : interpreters) {
    if (access(interpreter.c_str(), X_OK) != 0) continue;
    commands.push_back({known.label,
                        {interpreter, std::string(LOCANT_SOURCE_DIR "/bench/peers/") + known.script, threads},
                        environment});
  }
  return commands;
}

}  // namespace

Peers find_peers(const PeerSearch& search) {
  struct Tried {
    std::string label;
    std::vector<PeerCommand> commands;
    std::unique_ptr<Peer> first;
  };
  std::vector<Tried> tried;
  for (const Known& known : kKnown) {
    const auto& labels = search.labels;
    if (!labels.empty() && std::find(labels.begin(), labels.end(), known.label) == labels.end()) continue;
    Tried one{known.label, commands_of(known, search), nullptr};
    if (!one.commands.empty()) one.first = std::make_unique<Peer>(one.commands.front());
    tried.push_back(std::move(one));
  }
  Peers peers;
  for (Tried& one : tried) {
    std::string reason = "no Python environment (.venv, .venv-peers) is here";
    for (std::size_t i = 0; i < one.commands.size() && !reason.empty(); ++i) {
      std::unique_ptr<Peer> peer =
          i == 0 ? std::move(one.first) : std::make_unique<Peer>(std::move(one.commands[i]));
      reason = peer->greet();
      if (reason.empty()) peers.found.push_back(std::move(peer));
    }
    if (!reason.empty()) peers.missing.emplace_back(one.label, reason);
  }
  return peers;
}

}  // namespace locant::bench
