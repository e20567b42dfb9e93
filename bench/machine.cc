// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>

#include "locant/threads.h"

namespace locant::bench {
namespace {

std::string field_of_cpu(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    return colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return "";
}

// Bytes of the data cache of a level, 0 where the system does not say.
std::int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::string type, size;
    int here = 0;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "level") >> here;
    std::ifstream(folder + "size") >> size;
    if (here != level || type == "Instruction" || size.empty()) continue;
    const std::int64_t unit = size.back() == 'M' ? 1 << 20 : size.back() == 'K' ? 1 << 10 : 1;
    return std::stoll(size) * unit;
  }
  return 0;
}

}  // namespace

std::vector<CacheLevel> cache_levels(int threads) {
  const auto or_else = [](std::int64_t found, std::int64_t otherwise) {
    return found > 0 ? found : otherwise;
  };
  const std::int64_t l1 = or_else(cache_bytes(1), 32 << 10), l2 = or_else(cache_bytes(2), 512 << 10);
  const std::int64_t l3 = or_else(cache_bytes(3), 16 << 20);
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  return {{"L1", l1, l1 / 2 * threads},
          {"L2", l2, l2 / 2 * threads},
          {"L3", l3, std::min(l3 / 2, l2 * 4 * threads)},
          {"DRAM", 0, std::min(l3 * 4, kLargest)}};
}

std::string cpu_model() {
  return fmt::format("{}, family {} model {}", field_of_cpu("model name"), field_of_cpu("cpu family"),
                     field_of_cpu("model"));
}

std::string cpu_slug() {
  std::string slug;
  for (const char c : fmt::format("{}-{}-{}", field_of_cpu("model name"), field_of_cpu("cpu family"),
                                  field_of_cpu("model"))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  return slug;
}

std::string kernel_name() {
  utsname name{};
  uname(&name);
  return fmt::format("{} {}", name.sysname, name.release);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

double load_average() {
  double load = -1;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

int cpu_count() {
  return ThreadPool::hardware();
}

}  // namespace locant::bench
