// SPDX-License-Identifier: Apache-2.0
// Every rule of the operations as its sentence, thrown before anything is written.
#include <gtest/gtest.h>
#include <array>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "locant/ops.h"

namespace locant {
namespace {

template <class Error>
std::string sentence(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
std::string spec_error(const std::function<void()>& call) {
  return sentence<SpecError>(call);
}
std::string range_error(const std::function<void()>& call) {
  return sentence<std::out_of_range>(call);
}

class Rules : public ::testing::Test {
 protected:
  ThreadPool pool{1};
  std::vector<float> a = std::vector<float>(4096, 1.0f);
  std::vector<float> b = std::vector<float>(4096, 2.0f);
  std::vector<float> out = std::vector<float>(4096, 3.0f);
  std::vector<std::int64_t> ids{0, 1, 2};

  [[nodiscard]] Matrix table(std::int64_t rows, std::int64_t columns) const {
    return {.data = a.data(), .dtype = DType::f32, .rows = rows, .columns = columns, .row_stride = columns};
  }
  [[nodiscard]] View<float, 2> to(std::int64_t rows, std::int64_t columns) {
    return {out.data(), {rows, columns}};
  }

  void TearDown() override {
    for (const float x : out) ASSERT_EQ(x, 3.0f) << "something was written before the rule was checked";
  }
};

TEST_F(Rules, Matrix) {
  EXPECT_EQ(spec_error([&] {
              (void)matrix(TensorRef(a.data(), DType::f32, {2, 3, 4}));
            }),
            "matrix: a weight is [2,3,4], expected [rows, columns]");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(TensorRef(a.data(), DType::i8, {2, 3}));
            }),
            "matrix: a weight is i8, expected f32, f16 or bf16");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(TensorRef(a.data(), DType::f64, {2, 3}));
            }),
            "matrix: a weight is f64, expected f32, f16 or bf16");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(View<float, 2>(a.data(), {2, 3}, {1, 2}));
            }),
            "matrix: columns have stride 2, expected 1");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(View<float, 2>(a.data(), {2, 3}, {2, 1}));
            }),
            "matrix: a weight has rows of 3 elements, stride 2 is too small");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(View<float, 2>(nullptr, {2, 3}));
            }),
            "matrix: a weight is [2,3] without data");
  EXPECT_EQ(spec_error([&] {
              (void)matrix(View<float, 2>(a.data(), {-2, 3}));
            }),
            "matrix: a weight is [-2,3], an extent is negative");
}

TEST_F(Rules, Embed) {
  const View<const std::int64_t, 1> three(ids.data(), {3});
  EXPECT_EQ(range_error([&] {
              ids[2] = 32000;
              embed({.ids = three, .table = table(3, 8), .out = to(3, 8)}, pool);
            }),
            "embed: token 32000 at row 2 is outside vocab 3");
  EXPECT_EQ(range_error([&] {
              ids[2] = -1;
              embed({.ids = three, .table = table(3, 8), .out = to(3, 8)}, pool);
            }),
            "embed: token -1 at row 2 is outside vocab 3");
  EXPECT_EQ(range_error([&] {
              ids[2] = 3;
              add_rows({.rows = three, .table = table(3, 8), .out = to(3, 8)}, pool);
            }),
            "add_rows: index 3 at row 2 is outside table 3");
  ids[2] = 0;
  EXPECT_EQ(spec_error([&] { embed({.ids = three, .table = table(3, 8), .out = to(2, 8)}, pool); }),
            "embed: out is [2,8], expected [tokens=3, width=8]");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = {nullptr, {3}}, .table = table(3, 8), .out = to(3, 8)}, pool);
            }),
            "embed: ids is [3] without data");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = {ids.data(), {-3}}, .table = table(3, 8), .out = to(3, 8)}, pool);
            }),
            "embed: ids is [-3], an extent is negative");
  EXPECT_EQ(spec_error([&] {
              Matrix wrong = table(3, 8);
              wrong.dtype = DType::i32;
              add_rows({.rows = three, .table = wrong, .out = to(3, 8)}, pool);
            }),
            "add_rows: table is i32, expected f32, f16 or bf16");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = three, .table = table(3, 8), .out = {nullptr, {3, 8}}}, pool);
            }),
            "embed: out is [3,8] without data");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = three, .table = table(3, 8), .out = {out.data(), {3, 8}, {16, 2}}}, pool);
            }),
            "embed: the last axis of out has stride 2, expected 1");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = three, .table = table(3, 8), .out = {out.data(), {3, 8}, {4, 1}}}, pool);
            }),
            "embed: out writes an element twice, stride 4 of axis 0 covers less than 8");
  EXPECT_EQ(spec_error([&] {
              embed({.ids = three, .table = table(3, 8), .out = {a.data() + 23, {3, 8}}}, pool);
            }),
            "embed: out overlaps the table");
}

TEST_F(Rules, Rotate) {
  const View<const float, 3> x(a.data(), {2, 7, 64});
  const View<float, 3> y(out.data(), {2, 7, 64});
  const View<const float, 2> tables(b.data(), {2, 32});
  const RotateCall<float> good{.x = x, .cos = tables, .sin = tables, .out = y};
  const auto with = [&](auto change) {
    return spec_error([&] {
      RotateCall<float> call = good;
      change(call);
      rotate(call, pool);
    });
  };
  EXPECT_EQ(with([&](auto& c) {
              c.out = {out.data(), {2, 8, 64}};
            }),
            "rotate: out is [2,8,64], expected [tokens=2, heads=7, head_dim=64]");
  EXPECT_EQ(with([&](auto& c) {
              c.cos = {b.data(), {3, 32}};
            }),
            "rotate: cos is [3,32], expected [tokens=2, pairs=32]");
  EXPECT_EQ(with([&](auto& c) {
              c.sin = {b.data(), {2, 31}};
            }),
            "rotate: sin is [2,31], expected [tokens=2, pairs=32]");
  EXPECT_EQ(with([&](auto& c) { c.shape.offset = 1; }), "rotate: channels 1 to 65 are outside head_dim 64");
  EXPECT_EQ(with([&](auto& c) { c.shape.offset = -2; }), "rotate: channels -2 to 62 are outside head_dim 64");
  EXPECT_EQ(with([&](auto& c) {
              c.cos = {b.data(), {2, 33}};
              c.sin = {b.data(), {2, 33}};
            }),
            "rotate: channels 0 to 66 are outside head_dim 64");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {a.data(), {2, 7, 64}, {896, 128, 2}};
            }),
            "rotate: the last axis of x has stride 2, expected 1");
  EXPECT_EQ(with([&](auto& c) { c.x = {nullptr, {2, 7, 64}}; }), "rotate: x is [2,7,64] without data");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {a.data(), {2, -7, 64}};
            }),
            "rotate: x is [2,-7,64], an extent is negative");
  EXPECT_EQ(with([&](auto& c) { c.cos = {nullptr, {2, 32}}; }), "rotate: cos is [2,32] without data");
  EXPECT_EQ(with([&](auto& c) {
              c.out = {out.data(), {2, 7, 64}, {64, 64, 1}};
            }),
            "rotate: out writes an element twice, stride 64 of axis 0 covers less than 448");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {out.data() + 1, {2, 7, 64}};
            }),
            "rotate: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {out.data(), {2, 7, 64}, {512, 64, 1}};
            }),
            "rotate: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(with([&](auto& c) { c.cos = {out.data() + 800, {2, 32}}; }), "rotate: out overlaps the tables");
  EXPECT_EQ(spec_error([&] {
              std::vector<float> wide(4098);
              std::vector<float> table(2049);
              rotate({.x = {wide.data(), {1, 1, 4098}},
                      .cos = {table.data(), {1, 2049}},
                      .sin = {table.data(), {1, 2049}},
                      .shape = {.read = Pairing::interleaved, .write = Pairing::half},
                      .out = {wide.data(), {1, 1, 4098}}},
                     pool);
            }),
            "rotate: in place from one pairing to the other holds 4096 channels at most, width is 4098");
}

TEST_F(Rules, Normalize) {
  const NormCall good{.x = {a.data(), {2, 8}}, .gain = {b.data(), {8}}, .out = to(2, 8)};
  const auto with = [&](auto change) {
    return spec_error([&] {
      NormCall call = good;
      change(call);
      normalize(call, pool);
    });
  };
  EXPECT_EQ(with([&](auto& c) { c.out = to(2, 9); }),
            "normalize: out is [2,9], expected [tokens=2, width=8]");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {a.data(), {2, 0}};
            }),
            "normalize: x is [2,0], expected at least one column");
  EXPECT_EQ(with([&](auto& c) { c.gain = {b.data(), {7}}; }), "normalize: gain is [7], expected [width=8]");
  EXPECT_EQ(with([&](auto& c) {
              c.gain = {b.data(), {8}, {2}};
            }),
            "normalize: the last axis of gain has stride 2, expected 1");
  EXPECT_EQ(with([&](auto& c) { c.bias = {b.data(), {9}}; }), "normalize: bias is [9], expected [width=8]");
  EXPECT_EQ(with([&](auto& c) { c.eps = -1; }), "normalize: eps is -1, expected 0 or more");
  EXPECT_EQ(with([&](auto& c) { c.eps = std::numeric_limits<double>::quiet_NaN(); }),
            "normalize: eps is nan, expected 0 or more");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {out.data() + 4, {2, 8}};
            }),
            "normalize: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(with([&](auto& c) { c.gain = {out.data() + 8, {8}}; }), "normalize: out overlaps gain or bias");
}

TEST_F(Rules, Activate) {
  const ActivateCall good{.x = {a.data(), {2, 8}}, .up = {b.data(), {2, 8}}, .out = to(2, 8)};
  const auto with = [&](auto change) {
    return spec_error([&] {
      ActivateCall call = good;
      change(call);
      activate(call, pool);
    });
  };
  EXPECT_EQ(with([&](auto& c) { c.out = to(3, 8); }), "activate: out is [3,8], expected [tokens=2, width=8]");
  EXPECT_EQ(with([&](auto& c) {
              c.up = {b.data(), {2, 7}};
            }),
            "activate: up is [2,7], expected [tokens=2, width=8]");
  EXPECT_EQ(with([&](auto& c) { c.up = {nullptr, {2, 8}}; }), "activate: up is [2,8] without data");
  EXPECT_EQ(with([&](auto& c) {
              c.activation = Activation::clamped_swiglu;
              c.up = {};
            }),
            "activate: clamped_swiglu needs up");
  EXPECT_EQ(with([&](auto& c) {
              c.activation = Activation::clamped_swiglu;
              c.limit = 0;
            }),
            "activate: limit is 0, expected above 0");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {out.data() + 1, {2, 8}};
            }),
            "activate: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(with([&](auto& c) {
              c.up = {out.data() + 1, {2, 8}};
            }),
            "activate: out overlaps up, expected up itself or other memory");
}

TEST_F(Rules, Project) {
  const ProjectCall good{.x = {b.data(), {2, 8}}, .weight = table(3, 8), .out = to(2, 3)};
  const auto with = [&](auto change) {
    return spec_error([&] {
      ProjectCall call = good;
      change(call);
      project(call, pool);
    });
  };
  EXPECT_EQ(with([&](auto& c) {
              c.x = {b.data(), {2, 9}};
            }),
            "project: x is [2,9], expected [tokens, columns=8]");
  EXPECT_EQ(with([&](auto& c) { c.out = to(2, 4); }), "project: out is [2,4], expected [tokens=2, rows=3]");
  EXPECT_EQ(with([&](auto& c) { c.weight = table(3, 0); }),
            "project: weight is [3,0], expected at least one column");
  EXPECT_EQ(with([&](auto& c) { c.weight.dtype = DType::i8; }),
            "project: weight is i8, expected f32, f16 or bf16");
  EXPECT_EQ(with([&](auto& c) { c.bias = {b.data(), {2}}; }), "project: bias is [2], expected [rows=3]");
  EXPECT_EQ(with([&](auto& c) { c.bias = {nullptr, {3}}; }), "project: bias is [3] without data");
  EXPECT_EQ(with([&](auto& c) { c.x = {out.data(), {2, 8}}; }), "project: out overlaps x");
  EXPECT_EQ(with([&](auto& c) { c.weight.data = out.data(); }), "project: out overlaps the weight");
  EXPECT_EQ(with([&](auto& c) { c.bias = {out.data() + 1, {3}}; }), "project: out overlaps bias");
}

TEST_F(Rules, ProjectOfSeveral) {
  const ProjectCall first{.x = {b.data(), {2, 8}}, .weight = table(3, 8), .out = to(2, 3)};
  ProjectCall second = first;
  second.out = {out.data() + 6, {2, 3}};
  const auto with = [&](auto change) {
    return spec_error([&] {
      std::array<ProjectCall, 2> calls{first, second};
      change(calls[1]);
      project(calls, pool);
    });
  };
  EXPECT_EQ(with([&](auto& c) { c.out = first.out; }), "project: out overlaps out of another call");
  EXPECT_EQ(with([&](auto& c) {
              c.x = {out.data(), {2, 8}};
              c.out = {out.data() + 16, {2, 3}};
            }),
            "project: out overlaps x of another call");
  EXPECT_EQ(with([&](auto& c) {
              c.weight.data = out.data();
              c.out = {out.data() + 24, {2, 3}};
            }),
            "project: out overlaps the weight of another call");
  EXPECT_EQ(with([&](auto& c) { c.bias = {out.data(), {3}}; }), "project: out overlaps bias of another call");
}

TEST_F(Rules, Store) {
  const CacheTensor cache{.data = out.data(), .dtype = DType::f32, .heads = 2, .capacity = 10, .width = 8};
  const StoreCall good{.x = {a.data(), {3, 2, 8}}, .cache = cache, .first_slot = 7};
  const auto with = [&](auto change) {
    return [&, change] {
      StoreCall call = good;
      change(call);
      store(call, pool);
    };
  };
  EXPECT_EQ(range_error(with([](auto& c) { c.first_slot = 8; })),
            "store: slots 8 to 11 are outside capacity 10");
  EXPECT_EQ(range_error(with([](auto& c) { c.first_slot = -1; })),
            "store: slots -1 to 2 are outside capacity 10");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.x = {a.data(), {3, 1, 8}};
            })),
            "store: x is [3,1,8], expected [tokens, kv_heads=2, width=8]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.x = {a.data(), {3, 2, 9}};
            })),
            "store: x is [3,2,9], expected [tokens, kv_heads=2, width=8]");
  EXPECT_EQ(spec_error(with([](auto& c) { c.cache.dtype = DType::i8; })),
            "store: cache is i8 without scales, expected [heads=2, capacity=10]");
  EXPECT_EQ(spec_error(with([](auto& c) { c.cache.dtype = DType::f64; })),
            "store: cache is f64, expected f32, f16, bf16 or i8");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.cache.dtype = DType::i8;
              c.cache.scales = a.data() + 40;
            })),
            "store: x overlaps the cache");
  EXPECT_EQ(spec_error(with([&](auto& c) { c.cache.norms = a.data() + 47; })), "store: x overlaps the cache");
  EXPECT_EQ(spec_error(with([](auto& c) { c.cache.heads = 0; })),
            "store: cache is [0,10,8], expected heads and a width above 0");
  EXPECT_EQ(spec_error(with([](auto& c) { c.cache.data = nullptr; })),
            "store: cache is [2,10,8] without data");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.x = {out.data() + 100, {3, 2, 8}};
            })),
            "store: x overlaps the cache");
}

TEST_F(Rules, Attend) {
  const std::vector<std::int64_t> positions{0, 1, 2, 3, 4};
  const CacheTensor keys{.data = a.data(), .dtype = DType::f32, .heads = 2, .capacity = 10, .width = 8};
  const CacheTensor values{.data = b.data(), .dtype = DType::f32, .heads = 2, .capacity = 9, .width = 4};
  const std::vector<float> q(2048, 0.5f);
  const AttendCall good{.q = {q.data(), {2, 4, 8}},
                        .keys = keys,
                        .values = values,
                        .first_slot = 3,
                        .out = {out.data(), {2, 4, 4}}};
  const auto with = [&](auto change) {
    return [&, change] {
      AttendCall call = good;
      change(call);
      attend({&call, 1}, pool);
    };
  };
  EXPECT_EQ(range_error(with([](auto& c) { c.first_slot = 8; })),
            "attend: slots 8 to 10 are outside capacity 9");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.q = {q.data(), {2, 4, 9}};
            })),
            "attend: q is [2,4,9], expected [tokens, heads, head_dim=8]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.q = {q.data(), {2, 3, 8}};
            })),
            "attend: 3 heads are no multiple of 2 kv heads");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.q = {q.data(), {2, 0, 8}};
            })),
            "attend: 0 heads are no multiple of 2 kv heads");
  EXPECT_EQ(spec_error(with([](auto& c) { c.values.heads = 1; })), "attend: values hold 1 heads, keys 2");
  EXPECT_EQ(spec_error(with([](auto& c) { c.keys.dtype = DType::f64; })),
            "attend: keys is f64, expected f32, f16, bf16 or i8");
  EXPECT_EQ(spec_error(with([](auto& c) { c.values.width = 1025; })),
            "attend: heads are 8 and 1025 wide, 1024 at most");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.out = {out.data(), {2, 4, 8}};
            })),
            "attend: out is [2,4,8], expected [tokens=2, heads=4, width=4]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.slopes = {q.data(), {3}};
              c.query_positions = {positions.data(), {2}};
              c.key_positions = {positions.data(), {5}};
            })),
            "attend: slopes is [3], expected [heads=4]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.slopes = {q.data(), {4}};
              c.query_positions = {positions.data(), {3}};
              c.key_positions = {positions.data(), {5}};
            })),
            "attend: query_positions is [3], expected [tokens=2]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.slopes = {q.data(), {4}};
              c.query_positions = {positions.data(), {2}};
            })),
            "attend: key_positions is [0], expected [slots=5]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.key_positions = {positions.data(), {5}};
            })),
            "attend: positions are given without slopes or relative, expected both or none");
  EXPECT_EQ(spec_error(with([&](auto& c) { c.q = {out.data() + 16, {2, 4, 8}}; })), "attend: out overlaps q");
  EXPECT_EQ(spec_error(with([&](auto& c) { c.values.data = out.data() + 16; })),
            "attend: out overlaps the cache");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.scores = {out.data() + 100, {4, 2, 6}};
            })),
            "attend: scores is [4,2,6], expected [heads=4, tokens=2, slots=5]");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.scores = {nullptr, {4, 2, 5}};
            })),
            "attend: scores is [4,2,5] without data");
  EXPECT_EQ(spec_error(with([&](auto& c) {
              c.scores = {out.data() + 31, {4, 2, 5}};
            })),
            "attend: scores overlap out, q or the cache");
  // One bad call among several: nothing of the others is written.
  AttendCall bad = good;
  bad.first_slot = 9;
  const std::vector<AttendCall> calls{good, bad};
  EXPECT_EQ(range_error([&] { attend(calls, pool); }), "attend: slots 9 to 11 are outside capacity 9");
}

TEST_F(Rules, FirstNonFinite) {
  EXPECT_EQ(spec_error([&] {
              (void)first_non_finite(TensorRef(a.data(), DType::i64, {2, 3}));
            }),
            "first_non_finite: a tensor is i64, expected f64, f32, f16 or bf16");
  EXPECT_EQ(spec_error([&] {
              (void)first_non_finite(TensorRef(nullptr, DType::f32, {2, 3}));
            }),
            "first_non_finite: a tensor is [2,3] without data");
}

}  // namespace
}  // namespace locant
