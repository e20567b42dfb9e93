// SPDX-License-Identifier: Apache-2.0
// The flags of bench_locant.
#pragma once

#include <string>
#include <vector>

#include "frame.h"

namespace locant::bench {

inline constexpr const char* kUsage = R"(usage: bench_locant [FLAGS]
  --threads N[,N]    thread counts, each a run of its own (1)
  --only WHAT        rows whose operation contains it ("rotation"), or by number ("4,5")
  --target NAME      AVX2, SSE4, AVX3: Locant uses it alone, and peers that allow it are held to it
  --peers NAME,...   torch, onnxruntime, openvino, ggml, llama.cpp, openblas, libm; none (all that are found)
  --peer PYTHON      the interpreter of the peers (.venv and .venv-peers)
  --seconds S        per row and contender (0.36); long calls get three slices and may take more
  --quick            a ninth of that, three slices; peers leave out what they compile and what takes a minute
  --json             JSON on standard output instead of the table
  --output FILE      JSON into FILE beside the table, written after every row
  --save FOLDER      JSON into FOLDER/<cpu>-<target>-<threads>.json, one file a thread count, written after every
                     row: rows measured now replace those of the file, its others stay
  --resume           with --save: leaves out the rows that the file has, measured with these flags
)";

struct Arguments {
  Options options;
  std::vector<int> threads{1};
  std::vector<std::string> peers;  ///< empty = all
  std::string interpreter, target, output, save, seconds;
  bool json = false;
  bool quick = false;
  bool resume = false;
};
/// The flags that a row's numbers depend on, as they are given; "" = none.
[[nodiscard]] std::string row_flags(const Arguments& arguments);
/// The flags that leave rows, peers or time out of a run, as they are given; "" = none.
[[nodiscard]] std::string omissions(const Arguments& arguments);
/// SpecError on what is no flag.
[[nodiscard]] Arguments parse(const std::vector<std::string>& args);

}  // namespace locant::bench
