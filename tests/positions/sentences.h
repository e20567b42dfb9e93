// SPDX-License-Identifier: Apache-2.0
// What a call says when it refuses.
#pragma once

#include <exception>
#include <string>

namespace locant::testing_text {

/// what() of the Error that a call throws; "nothing" when it throws none.
template <class Error, class Call>
std::string sentence(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace locant::testing_text
