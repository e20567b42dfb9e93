// SPDX-License-Identifier: Apache-2.0
// The mechanisms Locant knows, the pure function from spec to plan, the tables a plan stands for,
// and position ids. Public face of src/positions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/recipe.h"

namespace locant {

// ---------------------------------------------------------------------------------------------
// Registry

struct ParameterDescription {
  std::string_view name;
  std::string_view unit;          ///< "1", "tokens", "elements", "rad/token", "heads"
  std::string_view default_text;  ///< "" = required
  std::string_view config_keys;   ///< space-separated Hugging Face and GGUF keys
  std::string_view meaning;       ///< one sentence
};

using SitePlan = std::variant<PositionEmbedding, Rotation, Bias, QueryScale>;

/// One mechanism: everything `list`, `explain`, the docs table and plan() know about it.
struct Mechanism {
  std::string_view name;
  std::span<const std::string_view> aliases;
  Site site;
  std::string_view summary;  ///< one sentence
  std::string_view formula;  ///< plain text, one or a few lines
  std::string_view paper;    ///< authors, year, title, equation
  std::span<const ParameterDescription> parameters;
  /// Pure. Throws SpecError "mechanism: rule, what we got" on a bad parameter.
  SitePlan (*plan)(const PositionSpec&, const Recipe&, const Extent&);
};

/// All mechanisms, in the order of `locant list mechanisms`.
[[nodiscard]] std::span<const Mechanism> mechanisms() noexcept;
/// By name or alias. Throws SpecError with the nearest name otherwise.
[[nodiscard]] const Mechanism& find_mechanism(std::string_view name);

/// What a model says, per stack: the embedding site and every layer's set of mechanisms.
struct StackPositions {
  Stack stack = Stack::decoder;
  std::vector<PositionSpec> embedding;
  std::vector<std::vector<PositionSpec>> layers;  ///< an empty inner list = a layer without positions
};

/// The plan of a stack. Equal layers share one kind. Throws SpecError as the mechanisms do, and when
/// a layer holds two mechanisms of one site.
[[nodiscard]] Plan plan(const StackPositions& positions, const Recipe& recipe, const Extent& extent);

// ---------------------------------------------------------------------------------------------
// Differences of two plans

/// One difference of plan `b` from plan `a`, at one site of the layers it holds for.
struct PlanDifference {
  Site site = Site::rotation;
  std::vector<std::int64_t> layers{};  ///< empty at the embedding, and for the number of layers itself
  std::string what{};                  ///< one sentence with numbers
  /// Largest |b - a| of what differs: rad/token (inv_freq), 1 (amplitude, scale), 1/token (slopes),
  /// tokens, channels or rows (counts). 0 when what differs is no number.
  double largest = 0;
  std::int64_t index = -1;  ///< where: pair of a rotation or sinusoid, head of slopes; -1 = not one place
  /// First position whose angles differ by more than 2^-8 rad (a bf16 step of cos and sin) and more than
  /// 2^-24 rad (half an f32 step), for inv_freq; nothing when no position below 2^62 does.
  std::optional<std::int64_t> first_bf16{};
  std::optional<std::int64_t> first_f32{};
};

/// What differs between two plans, in the order embedding, then rotation, bias and query scale of the layers;
/// layers with the same difference share one entry. Empty when the plans give every layer the same sites.
[[nodiscard]] std::vector<PlanDifference> differences(const Plan& a, const Plan& b);

// ---------------------------------------------------------------------------------------------
// Tables

/// cos and sin of a rotation at given positions, amplitude and sign included.
/// positions [axes, T] (axes > every Rotation::axis; else SpecError), cos and sin [T, P].
/// Maximum error under `exact`: 2^-24 * amplitude against the real-valued formula, |position| < 2^24.
/// `f32_product` and `f32_running` imitate their runtime instead. Table dtypes narrower than f32 are
/// rounded to that dtype and stored as f32.
void rotation_table(const Rotation& rotation, const Numerics& numerics, View<const std::int64_t, 2> positions,
                    View<float, 2> cos, View<float, 2> sin);

/// Rows of a sinusoidal embedding: row[t] = what is added at positions[t], scale included.
/// positions [T], rows [T, width]. Error as rotation_table, times |scale|.
/// Throws SpecError when the form is not sinusoid.
void sinusoid_rows(const PositionEmbedding& embedding, const Numerics& numerics,
                   View<const std::int64_t, 1> positions, View<float, 2> rows);

/// Row of a table at a position; PastEnd::last_row holds at the end, never before the first row. Throws
/// std::out_of_range that names the position, the row and the table's end.
[[nodiscard]] std::int64_t table_row(const PositionEmbedding& embedding, std::int64_t position);

/// What a bias of form slopes adds to the scores of queries and keys at given positions. queries [Q], keys
/// [K], out [heads, Q, K]; sequence_end is the largest key position. Under f64 frequencies each value is
/// rounded once to f32; otherwise slope and distance are f32 and so is their product, rounded again to
/// numerics.bias where it counts from the sequence's start; added before the scale, distance and product are
/// rounded to numerics.bias_before_scale there. Throws SpecError on another
/// form or shape.
void slope_scores(const Bias& bias, const Numerics& numerics, View<const std::int64_t, 1> queries,
                  View<const std::int64_t, 1> keys, View<float, 3> out);

/// Rows of the relative table of a bias of form content that is a sinusoid: distances [T] = query - key, held
/// at max_distance where there is one, rows [T, width]: sin .. cos ... Error as rotation_table. Throws
/// SpecError on another form.
void relative_rows(const Bias& bias, const Numerics& numerics, View<const std::int64_t, 1> distances,
                   View<float, 2> rows);

/// The factor on a query at that position, f64; 1 at negative positions. Throws SpecError on an unknown form.
[[nodiscard]] double query_factor(const QueryScale& scale, std::int64_t position);

/// ALiBi's slopes for any number of heads, f64 (Press et al. 2022, and its published code for counts
/// that are no power of two). heads >= 1, bias_max > 0, else SpecError.
[[nodiscard]] std::vector<double> alibi_slopes(std::int64_t heads, double bias_max = 8);

/// Relative buckets of T5 (Raffel et al. 2020, section 2.1, and the published code).
struct T5Buckets {
  std::int64_t buckets = 32;        ///< rows of the table, 2 (4 when bidirectional) to 4096
  std::int64_t max_distance = 128;  ///< tokens, above buckets/2 (buckets/4); from here on the last bucket
  bool bidirectional = true;        ///< half of the buckets are for keys after the query
};
/// Bucket of relative = key position - query position, in [0, buckets). The floor of the logarithm is
/// decided in whole numbers: exact for any distance. Throws SpecError on buckets that break a rule.
[[nodiscard]] std::int64_t t5_bucket(std::int64_t relative, const T5Buckets& buckets);

/// Log buckets of DeBERTa-v2 (He et al. 2021; published code, make_log_bucket_position).
struct DebertaBuckets {
  std::int64_t buckets = 256;       ///< position_buckets, 4 to 4096; 0 = plain distances (DeBERTa v1)
  std::int64_t max_distance = 512;  ///< max_relative_positions, tokens; max_distance - 1 > buckets/2

  /// The table has 2 * span rows.
  [[nodiscard]] std::int64_t span() const noexcept { return buckets > 0 ? buckets : max_distance; }
};
/// Signed bucket of relative = query position - key position (not T5's sign), exact, odd in `relative`, not
/// clamped. Throws as t5_bucket.
[[nodiscard]] std::int64_t deberta_bucket(std::int64_t relative, const DebertaBuckets& buckets);
/// Row of the relative table: clamp(bucket + span, 0, 2 span - 1). The published code takes the same row for
/// both terms, c2p and p2c; the paper writes p2c with the opposite sign.
[[nodiscard]] std::int64_t deberta_row(std::int64_t relative, const DebertaBuckets& buckets);

// ---------------------------------------------------------------------------------------------
// Position ids

enum class Padding : std::uint8_t { none, left, right };
[[nodiscard]] std::string_view name_of(Padding padding) noexcept;

/// Positions of tokens start, start + 1, ...  [T]
[[nodiscard]] std::vector<std::int64_t> text_positions(std::int64_t tokens, std::int64_t start = 0);

/// Positions of a padded batch: content counts from `start` in each row, padding gets `pad_value`
/// (transformers 5 writes 0, 4.x wrote 1). mask [B, T], 1 = token; out [B, T]. The mask may have holes.
void masked_positions(View<const std::int64_t, 2> mask, std::int64_t start, std::int64_t pad_value,
                      View<std::int64_t, 2> out);

/// How a runtime counts a padded row when a call states no positions.
enum class Counting : std::uint8_t {
  content,  ///< the ones of the mask
  columns   ///< from the left edge, padding too
};
struct PaddingRule {
  Counting counting = Counting::content;
  std::int64_t pad_value = 0;  ///< position of padding under `content`; -1 = the row before a table's first
};
/// The rule of a family ("gpt2", "opt", ...; an unknown one has none of its own) under a recipe.
[[nodiscard]] PaddingRule padding_rule(std::string_view family, const Recipe& recipe);
/// Positions of a padded batch by a rule; mask, start and out as in masked_positions().
void padded_positions(View<const std::int64_t, 2> mask, std::int64_t start, const PaddingRule& rule,
                      View<std::int64_t, 2> out);

/// Ids and mask of uneven rows as one padded batch of width max(row length).
struct PaddedBatch {
  std::int64_t width = 0;
  std::vector<std::int64_t> ids;        ///< [B, width]
  std::vector<std::int64_t> mask;       ///< [B, width], 1 = token
  std::vector<std::int64_t> positions;  ///< [B, width]
};
/// Padding::none needs rows of equal length, else SpecError. starts: one per row, or empty for 0.
[[nodiscard]] PaddedBatch pad_batch(std::span<const std::vector<std::int64_t>> rows, Padding padding,
                                    std::int64_t pad_id, std::int64_t pad_value,
                                    std::span<const std::int64_t> starts = {});

/// Positions of the next `tokens` of a row whose cache stands at `last` (the largest position seen).
[[nodiscard]] std::vector<std::int64_t> continued_positions(std::int64_t last, std::int64_t tokens);

/// Positions of the last columns of a padded batch whose mask also covers what the cache holds: mask
/// [B, past + T], out [B, T]. Counted over the whole row; padding gets `pad_value` (OPT: -1).
void masked_tail_positions(View<const std::int64_t, 2> mask, std::int64_t pad_value,
                           View<std::int64_t, 2> out);

/// RoBERTa's and fairseq's ids: content counts from pad_id + 1 + past, padding keeps pad_id. ids, out [B, T];
/// padding is where ids equals pad_id, no mask is asked; past = tokens in the cache.
void pad_offset_positions(View<const std::int64_t, 2> ids, std::int64_t pad_id, std::int64_t past,
                          View<std::int64_t, 2> out);

// Documents packed in one row. Boundaries are the "cu_seqlens" of attention kernels: [documents + 1], 0
// first, never falling; segments are one id per token, equal in one document, different in neighbours.

/// Positions of packed documents, each from its start. starts: one per document, or empty for 0: with the
/// tokens already cached it is the ragged batch of a chunked prefill.
[[nodiscard]] std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> boundaries,
                                                         std::span<const std::int64_t> starts = {});
/// Document number of every token.
[[nodiscard]] std::vector<std::int64_t> boundaries_to_segments(std::span<const std::int64_t> boundaries);
/// A boundary wherever the segment changes. Documents without tokens are not seen.
[[nodiscard]] std::vector<std::int64_t> segments_to_boundaries(std::span<const std::int64_t> segments);
/// A boundary wherever a position is not the one before plus 1. Positions [T] of whole documents.
[[nodiscard]] std::vector<std::int64_t> positions_to_boundaries(std::span<const std::int64_t> positions);

/// A prompt cut for prefill: runs of at most `chunk` tokens that join to [0, tokens).
struct TokenRun {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const TokenRun&) const = default;
};
[[nodiscard]] std::vector<TokenRun> prefill_chunks(std::int64_t tokens, std::int64_t chunk);

/// What a cache keeps of a long row, and how what is kept is counted.
enum class Recount : std::uint8_t {
  kept,     ///< every token keeps its position (sliding windows)
  in_cache  ///< positions are places in the cache (StreamingLLM, Xiao et al. 2024, section 3.2)
};
struct CacheWindow {
  std::int64_t sinks = 0;   ///< first tokens that are never evicted
  std::int64_t window = 0;  ///< latest tokens that are kept, the query included; 0 = all
  Recount recount = Recount::kept;
};
/// What the last of `seen` tokens attends to: its own entry is the last one.
struct CachedTokens {
  std::vector<std::int64_t> tokens;     ///< ascending indices into the row
  std::vector<std::int64_t> positions;  ///< one each
};
[[nodiscard]] CachedTokens cached_tokens(std::int64_t seen, const CacheWindow& window);

/// Slot of a token in a paged cache: table[p / page] * page + p % page; -1 for p < 0 (padding). Throws
/// std::out_of_range past the table.
[[nodiscard]] std::vector<std::int64_t> paged_slots(std::span<const std::int64_t> positions,
                                                    std::span<const std::int64_t> table, std::int64_t page);
/// Slot in a ring of window.sinks + window.window slots; -1 for p < 0. window.window >= 1.
[[nodiscard]] std::vector<std::int64_t> ring_slots(std::span<const std::int64_t> positions,
                                                   const CacheWindow& window);

/// An image or a video as patches before merging.
struct VisionGrid {
  std::int64_t time = 1;    ///< temporal patches
  std::int64_t height = 0;  ///< rows of patches
  std::int64_t width = 0;   ///< columns of patches
  double seconds = 1;       ///< of one temporal patch ("second_per_grid_ts"), videos only
};

/// Time, row and column of every patch, [3, sum of time * height * width], in the order of an encoder that
/// merges blocks of merge x merge patches: blocks row by row, patches row by row inside; merge 1 is raster
/// order. Rows 1 and 2 alone are the axes of a 2-D rotation.
[[nodiscard]] std::vector<std::int64_t> grid_positions(std::span<const VisionGrid> grids, std::int64_t merge);
/// Boundaries of the frames of grids: one document per temporal patch.
[[nodiscard]] std::vector<std::int64_t> grid_boundaries(std::span<const VisionGrid> grids);

/// Where text goes on after an image or video that began at p.
enum class AfterVision : std::uint8_t {
  longest_side,     ///< p + max(merged height, merged width) (transformers since 5.3, llama.cpp)
  largest_position  ///< the largest position on any axis + 1 (transformers up to 5.2, vLLM, SGLang)
};
/// How a temporal index becomes a position.
enum class TimeSteps : std::uint8_t {
  counted,  ///< 0, 1, 2 .. (Qwen2-VL)
  scaled,   ///< floor(index * (tokens_per_second * seconds)), the product in f32 as in torch (Qwen2.5-VL)
  whole_seconds,  ///< index * tokens_per_second * floor(seconds) (transformers up to 5.2)
  separate        ///< every temporal patch of a video is a grid of its own (Qwen3-VL)
};
struct MropeRules {
  std::int64_t merge = 2;  ///< spatial_merge_size
  AfterVision after = AfterVision::longest_side;
  TimeSteps steps = TimeSteps::counted;
  double tokens_per_second = 1;  ///< steps scaled and whole_seconds
  std::int64_t pad_value = 0;    ///< transformers 5 writes 0, 4.x wrote 1
};
/// The rules of a family ("qwen2_vl", "qwen2_5_vl", ...) under a recipe. merge and tokens_per_second are the
/// config's and stay as they are by default. Throws SpecError with the nearest name on another family.
[[nodiscard]] MropeRules mrope_rules(std::string_view family, const Recipe& recipe);
/// What stands where. Grids are in the order of their tokens, row after row of the batch.
struct MropeInput {
  View<const std::int64_t, 2> kinds;  ///< [B, T]: 0 text, 1 image, 2 video ("mm_token_type_ids")
  View<const std::int64_t, 2> mask;   ///< [B, T], 1 = token; without data: all are
  std::span<const VisionGrid> images;
  std::span<const VisionGrid> videos;
};
struct MropePositions {
  std::vector<std::int64_t> ids;     ///< [3, B, T]: time, height, width
  std::vector<std::int64_t> deltas;  ///< [B]: next position - tokens of the row (0 for text alone)
};
/// Three position ids per token of text, images and videos (Wang et al. 2024, Qwen2-VL, section 2.1). Throws
/// SpecError when the vision tokens of a row are not those of its grids.
[[nodiscard]] MropePositions mrope_positions(const MropeInput& input, const MropeRules& rules);
/// Positions [3, tokens] of text decoded behind `seen` tokens of a row with that delta: all axes equal.
[[nodiscard]] std::vector<std::int64_t> mrope_continued(std::int64_t seen, std::int64_t tokens,
                                                        std::int64_t delta);
/// 1 where an id is the image's, 2 where it is the video's, else 0. ids, out [B, T].
void vision_kinds(View<const std::int64_t, 2> ids, std::int64_t image_id, std::int64_t video_id,
                  View<std::int64_t, 2> out);

}  // namespace locant
