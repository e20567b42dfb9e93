// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <csignal>

namespace locant::cli {
namespace {

std::atomic<bool>& raised() noexcept {
  static std::atomic<bool> flag{false};  // a signal handler reaches nothing else
  return flag;
}

}  // namespace

extern "C" {
static void locant_on_interrupt(int) {
  raised().store(true, std::memory_order_relaxed);
}
}

InterruptWatch::InterruptWatch() {
  raised().store(false, std::memory_order_relaxed);
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) != 0) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction wanted {};
  wanted.sa_handler = locant_on_interrupt;
  sigemptyset(&wanted.sa_mask);
  wanted.sa_flags = static_cast<int>(SA_RESTART) | static_cast<int>(SA_RESETHAND);
  watching_ = sigaction(SIGINT, &wanted, nullptr) == 0;
}

InterruptWatch::~InterruptWatch() {
  if (watching_) std::signal(SIGINT, SIG_DFL);
}

const std::atomic<bool>& InterruptWatch::flag() const noexcept {
  return raised();
}

}  // namespace locant::cli
