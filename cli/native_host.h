// SPDX-License-Identifier: Apache-2.0
// The host of the executable: standard streams, the process's environment.
#pragma once

#include <string>

#include "cli/host.h"

namespace locant::cli {

class NativeHost final : public Host {
 public:
  /// `program` is argv[0], used where the system does not tell the executable's path.
  explicit NativeHost(std::string program) : program_(std::move(program)) {}
  [[nodiscard]] std::ostream& out() override;
  [[nodiscard]] std::ostream& err() override;
  [[nodiscard]] bool out_is_terminal() const override;
  [[nodiscard]] bool err_is_terminal() const override;
  [[nodiscard]] std::string executable() const override;

 private:
  std::string program_;
};

}  // namespace locant::cli
