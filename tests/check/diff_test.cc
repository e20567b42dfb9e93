// SPDX-License-Identifier: Apache-2.0
// Two traces: layouts that mean the same are silent, one changed value is found where it is, prompts that
// differ are refused, and memory stays small.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "budgets.h"
#include "check/laid_out_trace.h"
#include "locant/check.h"

namespace locant {
namespace {

using testing::HasSubstr;
using tests::LaidOutTrace;
using tests::Layout;

TraceDiff diff_of(const Layout& want, const Layout& got) {
  const LaidOutTrace a(want);
  const LaidOutTrace b(got);
  return diff({.want = a.path(), .got = b.path()});
}

std::string text_of(const TraceDiff& diff) {
  std::string text;
  for (const Divergence& one : diff.differing) {
    text += one.tensor + " step " + std::to_string(one.step) + " token " +
            std::to_string(one.token.value_or(-1)) + " by " + std::to_string(one.difference) + " of " +
            std::to_string(one.budget) + "\n";
  }
  for (const Unmatched& one : diff.missing) text += "missing " + one.tensor + "\n";
  return text;
}

Layout changed(void (*change)(Layout&)) {
  Layout layout;
  change(layout);
  return layout;
}

struct Same {
  const char* name;
  Layout want;
  Layout got;
};

const auto kOneRow = [](Layout& layout) { layout.lengths = {9}; };

std::vector<Same> same_layouts() {
  std::vector<Same> all;
  const auto against_default = [&](const char* name, void (*change)(Layout&)) {
    all.push_back({name, Layout{}, changed(change)});
  };
  against_default("nothing differs", [](Layout&) {});
  against_default("padding on the right", [](Layout& l) { l.left = false; });
  against_default("bf16", [](Layout& l) { l.dtype = DType::bf16; });
  against_default("table in halves", [](Layout& l) { l.repeat = 1; });
  against_default("table with each column twice", [](Layout& l) { l.repeat = 2; });
  against_default("finite mask", [](Layout& l) { l.hidden = -3.4e38; });
  against_default("small finite mask", [](Layout& l) { l.hidden = -10000; });
  against_default("last logits", [](Layout& l) { l.last_logits = true; });
  against_default("interleaved heads", [](Layout& l) { l.interleaved = true; });
  against_default("spare slots", [](Layout& l) { l.spare_slots = 5; });
  against_default("a constant a query", [](Layout& l) { l.score_constant = 0.5; });
  against_default("no mask beside one, equal columns", [](Layout& l) { l.with_mask = false; });
  all.push_back(
      {"two repeats", changed([](Layout& l) { l.repeat = 1; }), changed([](Layout& l) { l.repeat = 2; })});
  Layout one;
  kOneRow(one);
  const auto of_one_row = [&](const char* name, void (*change)(Layout&)) {
    Layout other = one;
    change(other);
    all.push_back({name, one, other});
    all.push_back({name, other, one});
  };
  of_one_row("a prompt in pieces", [](Layout& l) { l.pieces = {4, 3, 2}; });
  of_one_row("token by token", [](Layout& l) { l.pieces = std::vector<std::int64_t>(9, 1); });
  of_one_row("table without rows", [](Layout& l) { l.table_by_row = false; });
  of_one_row("positions of one row", [](Layout& l) { l.positions_by_row = false; });
  of_one_row("no mask", [](Layout& l) { l.with_mask = false; });
  of_one_row("pieces and another order", [](Layout& l) {
    l.pieces = {5, 4};
    l.interleaved = true;
    l.dtype = DType::bf16;
  });
  Layout even;
  even.lengths = {7, 7, 7};
  Layout shared = even;
  shared.bias_by_head = false;
  shared.table_by_row = false;
  shared.positions_by_row = false;
  all.push_back({"rows that share table, bias and positions", even, shared});
  return all;
}

TEST(Diff, LayoutsThatMeanTheSameAreSilent) {
  for (const Same& same : same_layouts()) {
    SCOPED_TRACE(same.name);
    const TraceDiff found = diff_of(same.want, same.got);
    EXPECT_FALSE(found.first.has_value()) << text_of(found);
    EXPECT_TRUE(found.differing.empty());
    EXPECT_TRUE(found.missing.empty()) << text_of(found);
    EXPECT_GT(found.tensors_compared, 12);
    EXPECT_TRUE(found.hypotheses.empty());
  }
}

TEST(Diff, SaysOnceThatHeadsStandInAnotherOrder) {
  const TraceDiff found = diff_of({}, changed([](Layout& l) { l.interleaved = true; }));
  // of what comes in, and of what goes out
  ASSERT_EQ(found.notes.size(), 2U);
  EXPECT_THAT(found.notes[0], HasSubstr("interleaved where the other has them in halves"));
}

Layout random_layout(std::mt19937_64& random, const std::vector<std::int64_t>& lengths) {
  const auto coin = [&] { return random() % 2 == 0; };
  Layout layout;
  layout.lengths = lengths;
  layout.left = coin();
  layout.repeat = static_cast<int>(random() % 3);
  layout.hidden = coin() ? -INFINITY : -65504;
  layout.interleaved = coin();
  layout.spare_slots = static_cast<std::int64_t>(random() % 3);
  layout.dtype = random() % 4 == 0 ? DType::bf16 : DType::f32;
  if (lengths.size() > 1 || !coin()) return layout;
  layout.with_mask = coin();
  layout.table_by_row = coin();
  std::int64_t left = lengths[0];
  while (left > 0) {
    layout.pieces.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(left)));
    left -= layout.pieces.back();
  }
  return layout;
}

struct Changed {
  const char* name;
  std::int64_t heads;
  std::int64_t channels;
};

TEST(Diff, FindsOneChangedValueInAnyLayout) {
  std::mt19937_64 random(11);
  const std::vector<Changed> tensors = {{"embed.out", 1, 40},
                                        {"layers.0.attn.q_pre", 4, 12},
                                        {"layers.0.attn.q", 4, 12},
                                        {"layers.0.attn.k", 2, 12},
                                        {"layers.0.attn.v", 2, 12},
                                        {"layers.0.cache.v", 2, 12},
                                        {"layers.0.attn.scores", 4, 1},
                                        {"layers.0.out", 1, 40},
                                        {"logits", 1, 50},
                                        {"unheard.of", 1, 40},
                                        {"rope.cos", 1, 6}};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const std::vector<std::int64_t> lengths =
        random() % 2 == 0 ? std::vector<std::int64_t>{3 + static_cast<std::int64_t>(random() % 9)}
                          : std::vector<std::int64_t>{4, 8, 6};
    const Layout want = random_layout(random, lengths);
    Layout got = random_layout(random, lengths);
    const TraceDiff clean = diff_of(want, got);
    EXPECT_FALSE(clean.first.has_value()) << text_of(clean);

    const Changed& tensor = tensors[random() % tensors.size()];
    const std::int64_t row = static_cast<std::int64_t>(random() % lengths.size());
    const std::int64_t token =
        1 + static_cast<std::int64_t>(random() %
                                      static_cast<std::uint64_t>(lengths[static_cast<std::size_t>(row)] - 1));
    const std::int64_t head = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tensor.heads));
    const std::int64_t channel =
        tensor.channels == 1
            ? 0
            : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tensor.channels));
    SCOPED_TRACE(tensor.name);
    got.change = [&, name = std::string(tensor.name)](const std::string& is, std::int64_t r, std::int64_t t,
                                                      std::int64_t h, std::int64_t c) {
      return is == name && r == row && t == token && h == head && c == channel ? 1.5 : 0.0;
    };
    const bool shared_row = std::string(tensor.name) == "rope.cos" && !got.table_by_row;
    if (shared_row && row != 0) continue;
    const TraceDiff found = diff_of(want, got);
    ASSERT_TRUE(found.first.has_value());
    EXPECT_EQ(found.first->tensor, tensor.name);
    EXPECT_EQ(found.first->row.value_or(-1), row);
    // a slot is seen again in every later pass
    if (std::string(tensor.name) != "layers.0.cache.v") {
      EXPECT_EQ(found.differing.size(), 1U) << text_of(found);
    }
    if (tensor.heads > 1) {
      EXPECT_EQ(found.first->head.value_or(-1), head);
    }
    if (lengths.size() == 1 && want.pieces.empty() && std::string(tensor.name) != "layers.0.cache.v") {
      EXPECT_EQ(found.first->token.value_or(-1), token);
    }
  }
}

TEST(Diff, PutsTheFirstInTheOrderOfTheFlow) {
  Layout got;
  got.change = [](const std::string& name, std::int64_t, std::int64_t token, std::int64_t, std::int64_t) {
    return (name == "logits" || name == "layers.0.attn.k" || name == "layers.0.out") && token == 2 ? 1.0
                                                                                                   : 0.0;
  };
  const TraceDiff found = diff_of({}, got);
  ASSERT_EQ(found.differing.size(), 3U) << text_of(found);
  EXPECT_EQ(found.differing[0].tensor, "layers.0.attn.k");
  EXPECT_EQ(found.differing[1].tensor, "layers.0.out");
  EXPECT_EQ(found.differing[2].tensor, "logits");
  EXPECT_EQ(found.first->tensor, "layers.0.attn.k");
}

TEST(Diff, AHiddenKeyIsADifferenceWithoutSize) {
  Layout got;
  got.change = [](const std::string& name, std::int64_t row, std::int64_t query, std::int64_t head,
                  std::int64_t key) {
    return name == "layers.0.attn.scores" && row == 0 && head == 1 && query == 5 && key == 2 ? -1e9 : 0.0;
  };
  const TraceDiff found = diff_of({}, got);
  ASSERT_TRUE(found.first.has_value());
  EXPECT_EQ(found.first->tensor, "layers.0.attn.scores");
  EXPECT_EQ(found.first->head.value_or(-1), 1);
  EXPECT_TRUE(std::isinf(found.first->difference));
  EXPECT_TRUE(std::isinf(std::get<double>(found.first->got)));
  ASSERT_FALSE(found.hypotheses.empty());
  EXPECT_THAT(found.hypotheses[0].cause, HasSubstr("token 5 does not see key 2"));
}

/// Floats under names, all of one pass.
struct Small {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::string write_small(const tests::TempDir& folder, const std::string& file,
                        const std::vector<std::int64_t>& ids, const std::vector<Small>& tensors) {
  TraceWriter writer(folder.file(file), {.producer = "test", .model = "made"});
  if (!ids.empty())
    writer.record("input_ids", TensorRef(ids.data(), DType::i64, {1, static_cast<std::int64_t>(ids.size())}));
  for (const Small& small : tensors) {
    std::int64_t size = 1;
    TensorRef tensor;
    tensor.rank = small.shape.size();
    for (std::size_t axis = small.shape.size(); axis-- > 0;) {
      tensor.shape.at(axis) = small.shape[axis];
      tensor.strides.at(axis) = size;
      size *= small.shape[axis];
    }
    const std::vector<float> values(static_cast<std::size_t>(size), 0.5F);
    tensor.data = values.data();
    writer.record(small.name, tensor);
  }
  writer.finish();
  return folder.file(file);
}

std::string refusal(const std::string& want, const std::string& got) {
  return tests::message_of<FileError>([&] { (void)diff({.want = want, .got = got}); });
}

TEST(Diff, RefusesOtherTokensRowsAndStrangers) {
  const tests::TempDir folder;
  const std::string a = write_small(folder, "a", {1, 2, 3}, {{"embed.out", {1, 3, 4}}});
  const std::string b = write_small(folder, "b", {1, 9, 3}, {{"embed.out", {1, 3, 4}}});
  EXPECT_THAT(refusal(a, b),
              HasSubstr("two traces of the same tokens are compared, token 1 of row 0 is 9 here and 2 in"));
  const std::string rows = write_small(folder, "rows", {}, {{"embed.out", {2, 3, 4}}});
  EXPECT_THAT(refusal(a, rows), HasSubstr("two traces of the same rows are compared, here are 2 and 1 in"));
  const std::string other = write_small(folder, "other", {1, 2, 3}, {{"logits", {1, 3, 4}}});
  EXPECT_THAT(refusal(a, other), HasSubstr("a tensor stands in both traces"));
  EXPECT_THAT(refusal(a, folder.file("nowhere")), HasSubstr("cannot be read"));
}

TEST(Diff, ShapesAndMissingTensorsAreSaidInWords) {
  const tests::TempDir folder;
  const std::string a = write_small(folder, "a", {1, 2, 3}, {{"embed.out", {1, 3, 4}}, {"pooled", {1, 4}}});
  const std::string b =
      write_small(folder, "b", {1, 2, 3}, {{"embed.out", {1, 3, 5}}, {"logits", {1, 3, 7}}});
  const TraceDiff found = diff({.want = a, .got = b});
  ASSERT_TRUE(found.first.has_value());
  EXPECT_EQ(std::get<std::string>(found.first->want), "[1,3,4]");
  EXPECT_EQ(std::get<std::string>(found.first->got), "[1,3,5]");
  ASSERT_EQ(found.missing.size(), 2U);
  EXPECT_EQ(found.missing[0].tensor, "pooled");
  EXPECT_EQ(found.missing[0].path, b);
  EXPECT_EQ(found.missing[1].tensor, "logits");
  EXPECT_EQ(found.missing[1].path, a);
}

TEST(Diff, TokensThatAreGeneratedOtherwiseEndTheComparison) {
  const tests::TempDir folder;
  const auto write = [&](const std::string& file, std::int64_t second) {
    TraceWriter writer(folder.file(file), {.producer = "test", .model = "made"});
    for (int step = 0; step < 3; ++step) {
      if (step > 0) writer.begin_pass();
      const std::int64_t id = step == 2 ? second : step;
      const std::vector<float> state{1, 2, step == 2 ? static_cast<float>(second) : 0};
      writer.record("input_ids", TensorRef(&id, DType::i64, {1, 1}));
      writer.record("embed.out", TensorRef(state.data(), DType::f32, {1, 1, 3}));
    }
    writer.finish();
    return folder.file(file);
  };
  const TraceDiff found = diff({.want = write("a", 5), .got = write("b", 6)});
  ASSERT_EQ(found.differing.size(), 1U) << text_of(found);
  EXPECT_EQ(found.first->tensor, "input_ids");
  EXPECT_EQ(found.first->step, 2);
  EXPECT_EQ(std::get<double>(found.first->got), 6);
  ASSERT_FALSE(found.notes.empty());
  EXPECT_THAT(found.notes[0], HasSubstr("goes on with other tokens from token 2 on"));
}

/// A trace of zeros without blocks on the disk: [1, tokens, width] states under the names of layers. The last
/// value of the last one is `last`.
std::string write_sparse(const tests::TempDir& folder, const std::string& file, std::int64_t megabytes,
                         float last) {
  constexpr std::int64_t kTensors = 4;
  constexpr std::int64_t kWidth = 1024;
  const std::int64_t tokens = megabytes * 1024 * 1024 / (kTensors * kWidth * 4);
  const std::int64_t bytes = tokens * kWidth * 4;
  std::string header = R"({"__metadata__":{"locant.trace":"1","locant.dtype":"f32"})";
  for (std::int64_t i = 0; i < kTensors; ++i) {
    header += ",\"layers." + std::to_string(i) + ".out\":{\"dtype\":\"F32\",\"shape\":[1," +
              std::to_string(tokens) + "," + std::to_string(kWidth) + "],\"data_offsets\":[" +
              std::to_string(i * bytes) + "," + std::to_string((i + 1) * bytes) + "]}";
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const std::uint64_t length = header.size();
  std::string start(sizeof(length), '\0');
  std::memcpy(start.data(), &length, sizeof(length));
  const std::string path = folder.write(file, start + header);
  const std::int64_t size = static_cast<std::int64_t>(start.size() + header.size()) + kTensors * bytes;
  const int out = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(ftruncate(out, size), 0);
  EXPECT_EQ(pwrite(out, &last, sizeof(last), size - static_cast<std::int64_t>(sizeof(last))),
            static_cast<ssize_t>(sizeof(last)));
  close(out);
  return path;
}

std::int64_t status_kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(key, 0) == 0) return std::stoll(line.substr(key.size()));
  }
  return -1;
}

TEST(Diff, MemoryDoesNotGrowWithTheTraces) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own memory is in the way";
#endif
  const tests::TempDir folder;
  const std::string a = write_sparse(folder, "a", 200, 0);
  const std::string b = write_sparse(folder, "b", 200, 1);
  // the peak counts from here
  std::ofstream("/proc/self/clear_refs") << "5";
  const std::int64_t before = status_kilobytes("VmRSS:");
  if (before < 0) GTEST_SKIP() << "this system does not say how much memory is resident";
  const TraceDiff found = diff({.want = a, .got = b});
  const std::int64_t peak = status_kilobytes("VmHWM:");
  ASSERT_TRUE(found.first.has_value());
  EXPECT_EQ(found.first->tensor, "layers.3.out");
  EXPECT_LT(static_cast<double>(peak - before) * 1024, budgets::kDiffResident);
  RecordProperty("kilobytes_above_start", std::to_string(peak - before));
}

}  // namespace
}  // namespace locant
