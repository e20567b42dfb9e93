// SPDX-License-Identifier: Apache-2.0
#include "cli/answer.h"

#include <ostream>

#include "locant/core.h"
#include "locant/formats.h"
#include "locant/report.h"

namespace locant::cli {
namespace {

constexpr Style kColors{"\033[1m", "\033[2m", "\033[0m"};

bool wants_color(Host& host, const CommonFlags& flags) {
  require_one_of("--color", flags.color, {"auto", "always", "never"});
  if (flags.color != "auto") return flags.color == "always";
  return flags.output.empty() && host.out_is_terminal() && host.environment("NO_COLOR").empty() &&
         host.environment("TERM") != "dumb";
}

}  // namespace

Answer::Answer(Host& host, const CommonFlags& flags) : host_(host), path_(flags.output) {
  if (wants_color(host, flags)) style_ = kColors;
  if (!path_.empty()) check_writable(path_);
}

std::ostream& Answer::stream() {
  return path_.empty() ? host_.out() : buffer_;
}

void Answer::flush() {
  if (path_.empty()) host_.out().flush();
}

void Answer::write_json(const OrderedJson& object) {
  stream() << object.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

void Answer::finish() {
  if (!path_.empty()) {
    write_file(path_, buffer_.str());
    return;
  }
  host_.out().flush();
  if (!host_.out().good()) throw FileError("standard output", "cannot be written");
}

OrderedJson json_envelope(std::string_view command) {
  return OrderedJson::parse(json_head(command));
}

OrderedJson json_number(double value) {
  const std::string_view word = non_finite_word(value);
  return word.empty() ? OrderedJson(value) : OrderedJson(word);
}

Progress::Progress(Host& host, const CommonFlags& flags)
    : host_(host), on_(!flags.quiet && host.err_is_terminal()) {}
Progress::~Progress() {
  clear();
}

void Progress::show(const std::string& line) {
  if (!on_) return;
  host_.err() << "\r\033[K" << line << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) host_.err() << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace locant::cli
