// SPDX-License-Identifier: Apache-2.0
#include "locant/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::message_of;
using tests::slurp;
using tests::TempDir;
using trace_names::Layer;

TraceOptions options() {
  return {.producer = "locant 0.1.0", .model = "rope", .dtype = DType::bf16};
}

/// A safetensors file of one-byte tensors.
std::string file_of(const TempDir& dir, const std::vector<std::string>& names, const std::string& version) {
  SafetensorsWriter writer(dir.file("t.safetensors"));
  const std::uint8_t value = 1;
  for (const std::string& name : names) writer.add(name, TensorRef(&value, DType::u8, {1}));
  if (!version.empty()) writer.set_metadata("locant.trace", version);
  writer.finish();
  return dir.file("t.safetensors");
}

std::string cause(const std::string& path) {
  std::string what = message_of<FileError>([&] { TraceReader reader(path); });
  if (what.starts_with(path)) what.erase(0, path.size() + 2);
  return what;
}

TEST(TraceNames, OfLayers) {
  EXPECT_EQ(trace_names::layer(3, Layer::q_pre), "layers.3.attn.q_pre");
  EXPECT_EQ(trace_names::layer(0, Layer::k_pre), "layers.0.attn.k_pre");
  EXPECT_EQ(trace_names::layer(0, Layer::q), "layers.0.attn.q");
  EXPECT_EQ(trace_names::layer(0, Layer::k), "layers.0.attn.k");
  EXPECT_EQ(trace_names::layer(0, Layer::q_in), "layers.0.attn.q_in");
  EXPECT_EQ(trace_names::layer(0, Layer::k_in), "layers.0.attn.k_in");
  EXPECT_EQ(trace_names::layer(0, Layer::v), "layers.0.attn.v");
  EXPECT_EQ(trace_names::layer(12, Layer::cache_k), "layers.12.cache.k");
  EXPECT_EQ(trace_names::layer(12, Layer::cache_v), "layers.12.cache.v");
  EXPECT_EQ(trace_names::layer(0, Layer::cache_latent), "layers.0.cache.latent");
  EXPECT_EQ(trace_names::layer(0, Layer::cache_k_rope), "layers.0.cache.k_rope");
  EXPECT_EQ(trace_names::layer(0, Layer::cache_positions), "layers.0.cache.positions");
  EXPECT_EQ(trace_names::layer(0, Layer::cache_source), "layers.0.cache.source");
  EXPECT_EQ(trace_names::layer(0, Layer::bias), "layers.0.attn.bias");
  EXPECT_EQ(trace_names::layer(0, Layer::scores), "layers.0.attn.scores");
  EXPECT_EQ(trace_names::layer(0, Layer::probs), "layers.0.attn.probs");
  EXPECT_EQ(trace_names::layer(0, Layer::sinks), "layers.0.attn.sinks");
  EXPECT_EQ(trace_names::layer(0, Layer::attn_out), "layers.0.attn.out");
  EXPECT_EQ(trace_names::layer(100, Layer::out), "layers.100.out");
  EXPECT_EQ(message_of<SpecError>([] { (void)trace_names::layer(-1, Layer::q); }),
            "trace: layers count from 0, got -1");
}

TEST(TraceNames, OfTablesStepsAndStacks) {
  EXPECT_EQ(trace_names::rope_cos("sliding_attention"), "rope.sliding_attention.cos");
  EXPECT_EQ(trace_names::rope_sin("full_attention"), "rope.full_attention.sin");
  EXPECT_EQ(trace_names::rope_cos(""), trace_names::kRopeCos);
  EXPECT_EQ(trace_names::rope_sin(""), trace_names::kRopeSin);
  EXPECT_EQ(trace_names::step_prefix(0), "");
  EXPECT_EQ(trace_names::step_prefix(17), "step.17/");
  EXPECT_EQ(message_of<SpecError>([] { (void)trace_names::step_prefix(-1); }),
            "trace: steps count from 0, got -1");
  EXPECT_EQ(trace_names::stack_prefix(Stack::decoder), "");
  EXPECT_EQ(trace_names::stack_prefix(Stack::encoder), "encoder.");
}

TEST(Trace, WhatIsRecordedIsRead) {
  const TempDir dir;
  const std::string path = dir.file("t.safetensors");
  const std::vector<std::int64_t> ids{5, 6, 7};
  const std::vector<float> q{0, 1, 2, 3, 4, 5};
  TraceWriter writer(path, options());
  writer.record(trace_names::kInputIds, TensorRef(ids.data(), DType::i64, {1, 3}));
  writer.record("layers.0.attn.q", View<const float, 2>(q.data(), {2, 3}, {1, 2}));
  writer.begin_pass();
  writer.record(trace_names::kInputIds, TensorRef(ids.data() + 2, DType::i64, {1, 1}));
  writer.record("layers.0.attn.bias", TensorRef(q.data(), DType::f32, {0, 3}));
  writer.begin_pass();
  writer.begin_pass();  // nothing was recorded: no gap
  writer.record(trace_names::kInputIds, TensorRef(ids.data(), DType::i64, {1, 1}));
  EXPECT_THAT(dir.names(), IsEmpty());
  writer.finish();
  EXPECT_THAT(dir.names(), ElementsAre("t.safetensors"));

  TraceReader first(path);
  const TraceReader reader = std::move(first);
  EXPECT_THAT(reader.names(), ElementsAre("input_ids", "layers.0.attn.q", "step.1/input_ids",
                                          "step.1/layers.0.attn.bias", "step.2/input_ids"));
  EXPECT_EQ(reader.steps(), 3);
  EXPECT_EQ(reader.metadata("locant.trace"), "1");
  EXPECT_EQ(reader.metadata("locant.producer"), "locant 0.1.0");
  EXPECT_EQ(reader.metadata("locant.model"), "rope");
  EXPECT_EQ(reader.metadata("locant.dtype"), "bf16");
  EXPECT_EQ(reader.metadata("locant.source_names"), "");
  const TensorRef found = reader.find("layers.0.attn.q");
  EXPECT_EQ(found.dtype, DType::f32);
  EXPECT_EQ(found.shape_text(), "[2,3]");
  std::vector<float> values(6);
  std::memcpy(values.data(), found.data, 24);
  EXPECT_EQ(values, (std::vector<float>{0, 2, 4, 1, 3, 5}));
  std::int64_t id = 0;
  std::memcpy(&id, reader.find("step.1/input_ids").data, 8);
  EXPECT_EQ(id, 7);
  EXPECT_EQ(reader.find("layers.1.attn.q").data, nullptr);
  EXPECT_NE(reader.find("step.1/layers.0.attn.bias").data, nullptr);
}

TEST(Trace, UnfinishedWritersLeaveNothing) {
  const TempDir dir;
  dir.write("t", "old");
  {
    TraceWriter writer(dir.file("t"), options());
    const float x = 1;
    writer.record("logits", TensorRef(&x, DType::f32, {1}));
  }
  EXPECT_EQ(slurp(dir.file("t")), "old");
  EXPECT_THAT(dir.names(), ElementsAre("t"));
}

TEST(Trace, LargeScoresAreNotWanted) {
  const TempDir dir;
  TraceOptions small = options();
  small.largest_scores = 400;
  TraceWriter writer(dir.file("t"), small);
  for (const char* const name :
       {"layers.0.attn.scores", "layers.7.attn.probs", "layers.0.attn.bias", "encoder.layers.0.attn.scores",
        "layers.2.cross.probs", "step.3/layers.0.attn.scores"}) {
    EXPECT_TRUE(writer.wants(name, 100)) << name;
    EXPECT_FALSE(writer.wants(name, 101)) << name;
    EXPECT_FALSE(writer.wants(name, std::numeric_limits<std::int64_t>::max())) << name;
  }
  for (const char* const name : {"layers.0.attn.q", "layers.0.attn.out", "layers.0.out", "logits",
                                 "embed.out", "layers.0.cache.k", "layers.0.attn.sinks"}) {
    EXPECT_TRUE(writer.wants(name, std::numeric_limits<std::int64_t>::max())) << name;
  }
  TraceWriter standard(dir.file("u"), options());
  EXPECT_TRUE(standard.wants("layers.0.attn.scores", 64LL << 20));
  EXPECT_FALSE(standard.wants("layers.0.attn.scores", (64LL << 20) + 1));
}

TEST(Trace, WriterRefusals) {
  const TempDir dir;
  const float x = 1;
  const TensorRef tensor(&x, DType::f32, {1});
  TraceWriter writer(dir.file("t"), options());
  writer.record("logits", tensor);
  EXPECT_EQ(message_of<SpecError>([&] { writer.record("logits", tensor); }),
            "trace: a name is recorded once in a pass, \"logits\" comes again in pass 0");
  writer.finish();
  EXPECT_EQ(TraceReader(dir.file("t")).steps(), 1);
  EXPECT_EQ(message_of<FileError>([&] { TraceWriter lost(dir.file("no/t"), options()); }),
            dir.file("no/t") + ": cannot be written, there is no directory " + dir.file("no"));
  EXPECT_EQ(
      message_of<SpecError>([&] { TraceWriter lost(dir.file("u"), {.producer = "\xff", .model = ""}); }),
      "safetensors: a metadata value is utf-8, got \"\\xff\"");
}

TEST(Trace, ReaderRefusals) {
  const TempDir dir;
  EXPECT_EQ(cause(file_of(dir, {"logits"}, "")),
            "a trace says locant.trace in its metadata, this file does not");
  EXPECT_EQ(cause(file_of(dir, {"logits"}, "2")), "locant.trace 1 is read, got \"2\"");
  EXPECT_EQ(cause(file_of(dir, {"step.1/a", "step.3/a"}, "1")),
            "no step is left out, step 2 is missing before step 3");
  for (const char* const name : {"step.0/a", "step.01/a", "step.-1/a", "step.x/a", "step./a", "step.1",
                                 "step.1a/b", "step.99999999999999999999/a", "step.+1/a"}) {
    EXPECT_THAT(cause(file_of(dir, {"a", name}, "1")),
                HasSubstr("begins with step.N/, N = 1, 2, ..., got \"step."))
        << name;
  }
  EXPECT_EQ(cause(dir.file("none")), "cannot be read, no such file or directory");
  EXPECT_EQ(cause(dir.path()), "cannot be read, is a directory");
  EXPECT_THAT(cause(dir.write("bad", "abc")), HasSubstr("8 bytes of header length"));
}

TEST(Trace, AFirstPassMayBeEmpty) {
  const TempDir dir;
  EXPECT_EQ(TraceReader(file_of(dir, {}, "1")).steps(), 1);
  EXPECT_EQ(TraceReader(file_of(dir, {"step.1/a"}, "1")).steps(), 2);
}

TEST(Trace, RecordedByOtherRuntimes) {
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty()) GTEST_SKIP() << "no test data is configured";
  const TraceReader reader(data + "/real-faults/rotary-embedding-torch-offset-cache/buggy.safetensors");
  EXPECT_GT(reader.steps(), 1);
  EXPECT_THAT(reader.metadata("locant.producer"), HasSubstr("rotary-embedding-torch"));
  EXPECT_NE(reader.find(trace_names::step_prefix(reader.steps() - 1) + std::string("input_ids")).data,
            nullptr);
}

}  // namespace
}  // namespace locant
