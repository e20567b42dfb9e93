// SPDX-License-Identifier: Apache-2.0
#include "peer.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace locant::bench {

std::unique_ptr<Peer> Peer::start(const std::string& interpreter, const std::string& script, int threads) {
  int to[2], from[2];
  if (access(interpreter.c_str(), X_OK) != 0 || pipe(to) != 0) return nullptr;
  if (pipe(from) != 0) return nullptr;
  const int child = fork();
  if (child < 0) return nullptr;
  if (child == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
    execl(interpreter.c_str(), interpreter.c_str(), script.c_str(), fmt::format("{}", threads).c_str(),
          nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<Peer> peer(new Peer);
  peer->in_ = to[1];
  peer->out_ = from[0];
  peer->process_ = child;
  const auto hello = nlohmann::json::parse(peer->ask(R"({"hello": true})"), nullptr, false);
  if (!hello.is_object() || !hello.contains("name")) return nullptr;
  peer->name_ = hello["name"].get<std::string>();
  return peer;
}

Peer::~Peer() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

std::string Peer::ask(const std::string& line) {
  const std::string request = line + "\n";
  if (write(in_, request.data(), request.size()) != static_cast<ssize_t>(request.size())) return {};
  char piece[4096];
  std::size_t end = 0;
  while ((end = pending_.find('\n')) == std::string::npos) {
    const ssize_t got = read(out_, piece, sizeof piece);
    if (got <= 0) return {};
    pending_.append(piece, static_cast<std::size_t>(got));
  }
  std::string answer = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return answer;
}

bool Peer::prepare(const std::string& request) {
  const auto answer = nlohmann::json::parse(ask(request), nullptr, false);
  return answer.is_object() && answer.value("ok", false);
}

std::optional<double> Peer::slice(double seconds) {
  const auto answer = nlohmann::json::parse(ask(fmt::format(R"({{"slice": {}}})", seconds)), nullptr, false);
  if (!answer.is_object() || !answer.contains("ns")) return std::nullopt;
  return answer["ns"].get<double>();
}

}  // namespace locant::bench
