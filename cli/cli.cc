// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <ostream>
#include <stdexcept>
#include <system_error>

#include "cli/answer.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/stream.h"
#include "cli/suggest.h"
#include "locant/core.h"
#include "locant/ops.h"

namespace locant::cli {
namespace {

constexpr int kDone = 0;
constexpr int kBadInput = 2;
constexpr int kBug = 3;

constexpr std::array<Command, 11> kCommands{{
    {"run", "run a model: text or ids -> logits, next tokens, continuation", run_command},
    {"inspect", "state the facts of a model: embedding, positions, head, limits", inspect_command},
    {"check", "find a position or embedding fault and name it", check_command},
    {"trust", "how far a model's positions can be trusted, by facts and by measuring", trust_command},
    {"compare", "say where two readings of a model, or two models, differ", compare_command},
    {"trace", "record a run's tensors, of Locant or of another runtime", trace_command},
    {"diff", "compare two traces and name where they part", diff_command},
    {"report", "put all that is known of a model on one HTML page", report_command},
    {"list", "list mechanisms, families, recipes and rules", list_command},
    {"explain", "print the page of a mechanism or a recipe", explain_command},
    {"help", "print the page of a command", help_command},
}};

// LOCANT_TARGET names the instruction set to use instead of the best.
void choose_target(Host& host) {
  if (const std::string name = host.environment("LOCANT_TARGET"); !name.empty()) use_cpu_target(name);
}

int dispatch(Args args, Host& host) {
  choose_target(host);
  if (args.empty())
    throw UsageError(
        "give a command: run, inspect, check, trust, compare, trace, diff, report, list, explain or help");
  const std::string& first = args.front();
  if (first == "-h" || first == "--help") throw HelpAsked{overview()};
  if (first == "--version") return version_command(args.subspan(1), host);
  return find_command(first).call(args.subspan(1), host);
}

int refuse(Host& host, std::string_view sentence, int status) {
  host.out().flush();
  host.err() << "locant: " << one_line(sentence) << '\n';
  host.err().flush();
  return status;
}

/// An answer that did not reach its reader is an error, whoever wrote it.
int flushed(Host& host, int status) {
  host.out().flush();
  return host.out().good() ? status : refuse(host, "standard output: cannot be written", kBadInput);
}

}  // namespace

std::span<const Command> commands() noexcept {
  return kCommands;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names{"--version", "--help"};
  for (const Command& command : kCommands) {
    if (command.name == name) return command;
    names.emplace_back(command.name);
  }
  throw UsageError(fmt::format("there is no command {}{}", in_quotes(name), did_you_mean(name, names)));
}

int run(std::span<const std::string> args, Host& host) {
  try {
    return flushed(host, dispatch(args, host));
  } catch (const HelpAsked& help) {
    host.out() << help.text;
    return flushed(host, kDone);
  } catch (const UsageError& error) {
    return refuse(host, error.what(), kBadInput);
  } catch (const SpecError& error) {
    return refuse(host, error.what(), kBadInput);
  } catch (const FileError& error) {
    return refuse(host, error.what(), kBadInput);
  } catch (const std::out_of_range& error) {
    return refuse(host, error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return refuse(host, "memory: this machine does not give enough for it", kBadInput);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      return refuse(host, "threads: the system starts no more; --threads takes fewer", kBadInput);
    return refuse(host, fmt::format("system: {}", error.what()), kBadInput);
  } catch (const std::exception& error) {
    return refuse(
        host,
        fmt::format("this is a bug in Locant, please report it with the command line: {}", error.what()),
        kBug);
  } catch (...) {
    return refuse(
        host, "this is a bug in Locant, please report it with the command line: an unknown exception", kBug);
  }
}

}  // namespace locant::cli
