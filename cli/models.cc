// SPDX-License-Identifier: Apache-2.0
#include "cli/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/arguments.h"
#include "cli/suggest.h"

namespace locant::cli {
namespace fs = std::filesystem;

std::string find_model(const std::string& argument, const Host& host) {
  std::error_code error;
  if (fs::exists(argument, error)) return argument;
  const std::vector<std::string> bundled{"rope", "alibi", "learned", "sinusoidal"};
  if (std::find(bundled.begin(), bundled.end(), argument) == bundled.end()) {
    throw UsageError(fmt::format("model: {} is no path that exists and no bundled model ({}){}",
                                 in_quotes(argument), fmt::join(bundled, ", "),
                                 did_you_mean(argument, bundled)));
  }
  const fs::path folder = fs::path(host.executable()).parent_path();
  std::vector<std::string> places;
  for (const char* place : {"models", "../models", "../share/locant/models"}) {
    const fs::path candidate = (folder / place / argument).lexically_normal();
    if (fs::exists(candidate / "config.json", error)) return candidate.string();
    places.push_back(candidate.string());
  }
  throw UsageError(fmt::format("model: the bundled model {} is not there, looked for {}", argument,
                               fmt::join(places, ", ")));
}

std::string directory_of(const std::string& model_path) {
  std::error_code error;
  if (fs::is_directory(model_path, error)) return model_path;
  const fs::path parent = fs::path(model_path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace locant::cli
