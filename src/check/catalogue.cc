// SPDX-License-Identifier: Apache-2.0
// Every rule: what it is called, what it needs, what it cannot tell, and what to do about a finding.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/nearest.h"
#include "locant/check.h"

namespace locant {
namespace {

constexpr std::string_view kQk = "layers.N.attn.q_pre with .q, or .k_pre with .k, and a model";
constexpr std::string_view kTables = "rope.cos with rope.sin, and a model";
constexpr std::string_view kScores = "layers.N.attn.scores with .q and .k or the cache's keys, and a model";
constexpr std::string_view kWeights = "a model's config and its weights";
constexpr std::string_view kBoth = "a model and --against another form of it, with the weights of both";
constexpr std::string_view kPlaces = "position_ids, or a tensor that positions can be read off";

constexpr std::array kRules = {
    Rule{.id = "B101",
         .name = "slopes",
         .severity = Severity::error,
         .summary = "Scores grow with the distance at other slopes than the plan's.",
         .needs = kScores,
         .example = "scores of layer 0: every slope is doubled: the bias is added 2 times; head 0: 0.17678 "
                    "per token where 0.088388 is due",
         .cannot_tell =
             "It does not see a bias that is equal for all keys of a query: softmax does not see it either.",
         .fix = "Compare the list of slopes with the published one; look for a bias that is added in two "
                "places."},
    Rule{.id = "B102",
         .name = "softmax-scale",
         .severity = Severity::error,
         .summary = "q.k is multiplied by another factor than the plan's.",
         .needs = kScores,
         .example = "scores of layer 0: q.k is multiplied by 0.25 where 0.39741 is due: a factor of 1.5896 "
                    "is missing",
         .cannot_tell = "It does not see a factor that was folded into the weights of q.",
         .fix = "Look at how the factor is derived: head_dim, a stated scale, YaRN's mscale_all_dim."},
    Rule{.id = "B103",
         .name = "padding-visible",
         .severity = Severity::error,
         .summary = "A token attends to padding.",
         .needs = "layers.N.attn.scores, attention_mask and a model",
         .example = "scores of layer 0: padding is visible; first row 1, token 7 and the key of position 0, "
                    "161 in all",
         .cannot_tell = "It does not see masks that are applied after the softmax.",
         .fix = "Pass the mask on to attention, in decoding too."},
    Rule{.id = "B104",
         .name = "future-visible",
         .severity = Severity::error,
         .summary = "A token attends to a later one.",
         .needs = "layers.N.attn.scores of more than one token, and a model",
         .example = "scores of layer 0: a later token is visible; first row 0, token 0 and the key of "
                    "position 1, 276 in all",
         .cannot_tell = "It does not see masks that are applied after the softmax.",
         .fix = "Add the causal mask; check its offset when a cache precedes."},
    Rule{.id = "B105",
         .name = "window",
         .severity = Severity::error,
         .summary = "A token attends outside its window or chunk.",
         .needs = "layers.N.attn.scores longer than the window, and a model",
         .example = "scores of layer 1: a key outside the window of 8 tokens is visible; first row 0, token "
                    "8 and the key of position 0",
         .cannot_tell = "It does not see texts that fit into the window.",
         .fix = "Count the query itself into the window; check which layers have one."},
    Rule{.id = "B106",
         .name = "document-leak",
         .severity = Severity::error,
         .summary = "A token attends to another document of its row.",
         .needs = "layers.N.attn.scores, segment_ids and a model",
         .example = "scores of layer 0: a token of another document is visible; first row 0, token 12 and "
                    "the key of position 0",
         .cannot_tell = "It does not see rows with one document.",
         .fix = "Give attention the boundaries of documents."},
    Rule{.id = "B107",
         .name = "sees-nothing",
         .severity = Severity::error,
         .summary = "A token of content sees no key at all.",
         .needs = "layers.N.attn.scores and a model",
         .example = "scores of layer 0: a token sees nothing at all; first row 0, token 0",
         .cannot_tell = "It does not see padding rows, which see nothing by design.",
         .fix = "Check the mask's offset and its combination with the window."},
    Rule{.id = "B108",
         .name = "hides-too-much",
         .severity = Severity::error,
         .summary = "A key that a token ought to see is hidden.",
         .needs = "layers.N.attn.scores and a model",
         .example = "scores of layer 0: a key that ought to be visible is hidden; first row 0, token 9 and "
                    "the key of position 0",
         .cannot_tell = "It does not see masks that are applied after the softmax.",
         .fix = "Check the mask's offset, the window's width and that old keys are kept."},
    Rule{.id = "B109",
         .name = "buckets",
         .severity = Severity::error,
         .summary = "Scores carry another relative bias than the trained table of buckets gives.",
         .needs = "layers.N.attn.scores with .q and the keys, and a model whose weights hold the table (T5)",
         .example = "scores of layer 0: max_distance is 64 where 128 is due",
         .cannot_tell =
             "It does not see a constant for all keys of a query, nor biases that depend on q and k "
             "(DeBERTa, XLNet).",
         .fix = "Compare how a distance becomes a bucket: its sign, both directions or one, max_distance, "
                "and where "
                "the query stands while it decodes."},
    Rule{.id = "B110",
         .name = "scores-unexplained",
         .severity = Severity::error,
         .summary = "Scores are not a factor times q.k plus a distance times a slope.",
         .needs = kScores,
         .example =
             "scores of layer 2: scale, q.k and distance leave 0.21 of them unexplained, 2.9e-06 is rounding",
         .cannot_tell = "It does not see which of many causes it is: record bias, q_in and k_in as well.",
         .fix = "Record q_in and k_in where something happens between the rotation and the product."},
    Rule{.id = "E101",
         .name = "embedding-scale",
         .severity = Severity::error,
         .summary = "Rows enter the first layer with another factor than the plan's.",
         .needs = "embed.tokens with embed.out, and a model",
         .example = "embed.out: rows are multiplied by 1 where 9.798 is due: the scale is not applied",
         .cannot_tell = "It does not see factors that a norm behind the embedding removes.",
         .fix = "Apply the factor once, on the rows alone."},
    Rule{
        .id = "E102",
        .name = "embedding-scale-rounding",
        .severity = Severity::warning,
        .summary = "The embedding's factor is not rounded to the dtype that the model runs in.",
        .needs = "embed.tokens with embed.out, and a model",
        .example =
            "embed.out: rows are multiplied by 9.7977 where 9.8125 is due: the factor is not rounded to bf16",
        .cannot_tell = "It does not see runs in f32, where both are the same.",
        .fix = "Round the factor as the training code did."},
    Rule{.id = "E103",
         .name = "embedding-row-offset",
         .severity = Severity::error,
         .summary = "Rows are read at an offset from the token ids.",
         .needs = "embed.tokens, input_ids and weights",
         .example = "embed.tokens: row id +1 of model.embed_tokens.weight is read where row id is due",
         .cannot_tell = "It does not see offsets larger than 4.",
         .fix = "Check added tokens and the order of the vocabulary."},
    Rule{.id = "E104",
         .name = "embedding-table",
         .severity = Severity::error,
         .summary = "Rows are not those of the embedding table.",
         .needs = "embed.tokens, input_ids and weights",
         .example = "embed.tokens: rows come from lm_head.weight where decoder.embed_tokens.weight is due",
         .cannot_tell = "It does not see tables that were changed on purpose, as by adapters.",
         .fix = "Check which tensor is loaded as the embedding and how it is tied."},
    Rule{.id = "E105",
         .name = "positions-added",
         .severity = Severity::error,
         .summary = "Position rows enter the sum twice, not at all or scaled.",
         .needs = "embed.tokens, embed.positions and embed.out, and a model",
         .example = "embed.out: positions enter 2 times where once is due: positions are added twice",
         .cannot_tell = "It does not see models without position embeddings.",
         .fix = "Add them once, unscaled unless the plan says so."},
    Rule{.id = "E106",
         .name = "embedding-sum",
         .severity = Severity::error,
         .summary = "What enters the first layer is no sum of rows, positions and types.",
         .needs = "embed.tokens with embed.out, and a model",
         .example = "embed.out: rows times a scale and positions leave 0.4 of it unexplained",
         .cannot_tell = "It does not see what else is added: record it.",
         .fix = "Record embed.types, or what else is added to the rows."},
    Rule{.id = "E107",
         .name = "position-rows",
         .severity = Severity::error,
         .summary = "What is added is no row of the position table.",
         .needs = "embed.positions and a model, with weights for trained tables",
         .example =
             "embed.positions: 30 tokens got what no position of the plan's table gives; 0.71 of it is left",
         .cannot_tell = "It does not see trained tables whose weights are not given.",
         .fix = "Check the table's dialect: sine and cosine in halves or in turns, the ladder's divisor, the "
                "offset."},
    Rule{.id = "E108",
         .name = "head-table",
         .severity = Severity::error,
         .summary = "Logits are not the product with the head's rows.",
         .needs = "final_norm.out, logits and weights",
         .example = "logits: the head is model.embed_tokens.weight where lm_head.weight is due",
         .cannot_tell = "It does not see heads with a bias.",
         .fix = "Check which tensor is loaded as the head and whether it is tied."},
    Rule{.id = "E109",
         .name = "logit-scale",
         .severity = Severity::error,
         .summary = "Logits are scaled or capped otherwise than planned.",
         .needs = "final_norm.out, logits and weights",
         .example = "logits: the head's product is multiplied by 16 where 0.0625 is due: the direction of "
                    "the scale is turned round",
         .cannot_tell = "It does not see a scale that was folded into the head.",
         .fix = "Check the direction of the factor and the order of scale and cap."},
    Rule{.id = "E110",
         .name = "vocabulary-shards",
         .severity = Severity::error,
         .summary = "An id belongs to no shard of the vocabulary, or to several.",
         .needs = "a directory of traces, one a rank, with embed.tokens and input_ids, or logits and a model",
         .example =
             "embed.tokens of 4 ranks: id 98 has a row on 0 of them where one is due; ids 96 to 98 share "
             "that, 3 in the trace",
         .cannot_tell = "It does not see ids that the trace does not hold.",
         .fix = "Round the rows of a shard up, and let the last shard hold the rest."},
    Rule{.id = "E111",
         .name = "pooled-padding",
         .severity = Severity::error,
         .summary = "A pooled row is made of padding.",
         .needs = "pooled, final_norm.out and attention_mask; the pooled row is one of them or their mean",
         .example = "pooled: row 1 is the mean over all columns, padding too",
         .cannot_tell =
             "It does not see pooling behind a further layer, nor which pooling a model was trained for.",
         .fix = "Pool under the mask; look for the last column, or the last index of the longest row."},
    Rule{.id = "E112",
         .name = "padding-rows-win",
         .severity = Severity::error,
         .summary = "A row that pads the vocabulary has the largest logit.",
         .needs = "logits with more columns than the vocabulary, and a model",
         .example = "logits: column 50300 is the largest, and the vocabulary ends at 50257",
         .cannot_tell = "It does not see padding that the config counts as vocabulary.",
         .fix = "Cut the logits at the vocabulary, or set the columns behind it to -inf."},
    Rule{
        .id = "E113",
        .name = "not-finite",
        .severity = Severity::error,
        .summary = "A recorded tensor holds numbers that are not finite.",
        .needs = "states, q, k, v, scores or logits in a trace, and a model",
        .example = "layers.1.out is the first tensor with numbers that are not finite, at row 0, token 7",
        .cannot_tell = "It does not see what happens between two recorded tensors.",
        .fix =
            "Look at what lies between this tensor and the one before it: a division, a norm, a softmax over "
            "nothing, a range of 16 bits."},
    Rule{.id = "M101",
         .name = "stepwise",
         .severity = Severity::error,
         .summary = "Tokens fed one by one get other logits than in one call.",
         .needs = "a live runtime of a model whose tokens see earlier ones alone",
         .example =
             "64 tokens in one call, then 32 one by one, beside all in one call: logits differ from token 64 "
             "on by 0.37 of the largest, 5e-06 is rounding; 0.94 at token 78; later calls stand one position "
             "late; with the positions due given, it does not: the runtime's own count is wrong",
         .cannot_tell = "It does not see what both ways do alike: another theta, another table, another "
                        "pairing. A small difference of one size along the row that no miscount reproduces "
                        "is taken for a cache that rounds.",
         .fix = "Count the positions of later calls on from the cache; look at the path for one token."},
    Rule{.id = "M102",
         .name = "chunked",
         .severity = Severity::error,
         .summary = "A prompt in chunks gets other logits than in one call.",
         .needs = "a live runtime of a model whose tokens see earlier ones alone",
         .example = "chunks of 7 tokens beside all in one call: logits differ from token 7 on by 0.18 of the "
                    "largest, 5e-06 is rounding; 1.2 at token 28; every later call begins at 0 again; with "
                    "the positions due given, it does not: the runtime's own count is wrong",
         .cannot_tell = "It does not see chunks that a runtime makes inside one call.",
         .fix = "Start each chunk behind what the cache holds; rotate kept keys once."},
    Rule{.id = "M103",
         .name = "left-padding",
         .severity = Severity::error,
         .summary = "A row with padding on its left gets other logits than alone.",
         .needs = "a live runtime",
         .example = "row 0 of an uneven batch, 7 of padding on the left, beside the row alone: logits differ "
                    "from token 0 on by 0.46 of the largest, 5e-06 is rounding; 1.4 at token 32; the 7 of "
                    "padding are counted; another id in the padding changes nothing: it is not visible",
         .cannot_tell = "It does not see padding that is counted throughout where positions act by their "
                        "differences alone: there it is harmless.",
         .fix = "Take positions from the mask's content, in steps too; hide padding from every token."},
    Rule{.id = "M104",
         .name = "right-padding",
         .severity = Severity::error,
         .summary = "A row with padding on its right gets other logits than alone.",
         .needs = "a live runtime",
         .example =
             "row 0 of an uneven batch, 7 of padding on the right, beside the row alone: logits differ "
             "from token 83 on by 0.65 of the largest, 5e-06 is rounding; the 7 of padding are counted "
             "by the steps alone; another id in the padding changes nothing: it is not visible",
         .cannot_tell = "It does not see padding that only padding looks at.",
         .fix = "Count steps on from a row's content, not from the width of the batch; keep padding hidden "
                "behind it."},
    Rule{.id = "M105",
         .name = "batch",
         .severity = Severity::error,
         .summary = "A row of a batch gets other logits than alone, all rows of one length.",
         .needs = "a live runtime",
         .example = "row 1 of a batch of 3 beside the row alone: logits differ from token 90 on by 0.62 of "
                    "the largest, 5e-06 is rounding; every logit is 0, as if never written",
         .cannot_tell = "It does not see rows that are all wrong alike, nor rows that stand elsewhere "
                        "throughout where positions act by their differences alone.",
         .fix = "Look for an index that runs over the batch, and for one row's state that serves all."},
    Rule{
        .id = "M106",
        .name = "packed",
        .severity = Severity::error,
        .summary = "A document packed behind another one gets other logits than alone.",
        .needs = "a live runtime that takes documents",
        .example = "document 1 of 64 tokens behind 32 in one row, beside the document alone: logits differ "
                   "from token 0 on by 0.78 of the largest, 5e-06 is rounding; the first document is visible",
        .cannot_tell = "It does not see documents that count on from each other where positions act by their "
                       "differences alone: there it is harmless.",
        .fix = "Give attention the boundaries of documents, and begin positions at each."},
    Rule{.id = "M107",
         .name = "shift",
         .severity = Severity::error,
         .summary = "All positions shifted by one number give other logits, though they act by their "
                    "differences alone.",
         .needs =
             "a live runtime that takes positions, and a plan whose positions act by their differences alone",
         .example = "positions 340 to 639 beside 0 to 299: logits differ from token 1 on by 0.098 of the "
                    "largest, 5e-06 is rounding; 1.1 at token 29; a shift by 1 moves them by 0.84",
         .cannot_tell = "It does not see what is wrong alike everywhere: pairing, theta, scale, width.",
         .fix = "Look for positions or angles in 16 bits, and for a part that counts from the beginning."},
    Rule{.id = "M108",
         .name = "order",
         .severity = Severity::error,
         .summary = "Two earlier tokens change places and nothing else changes.",
         .needs = "a live runtime, a prompt of different tokens, and a plan that marks positions",
         .example = "tokens 93 and 94 change places and the logits of the last token stay, within 5e-06 of "
                    "the largest",
         .cannot_tell = "It does not see a lack of positions in a causal model of several layers: the mask "
                        "alone tells some order. M111 does.",
         .fix = "Check that positions reach the layers, and that attention sees more than its own token."},
    Rule{.id = "M109",
         .name = "history",
         .severity = Severity::error,
         .summary = "What ran before changes the logits of a prompt.",
         .needs = "a live runtime",
         .example = "one prompt, run 6 times, beside its first run: logits differ from token 0 on by 0.43 of "
                    "the largest, 0.0001 is rounding; 1.1 at token 94; every run differs from the one "
                    "before, as something adds up",
         .cannot_tell = "It does not see state that needs longer texts, or more of them, than were run.",
         .fix = "Look for buffers that are changed in place and kept, and for lengths that only grow."},
    Rule{
        .id = "M110",
        .name = "capacity",
        .severity = Severity::error,
        .summary = "A short prompt gets other logits where the session was opened for more tokens.",
        .needs =
            "a live runtime with room for more than the prompt, and a plan that does not follow the capacity",
        .example = "96 tokens in a session opened for 128 beside one opened for 96: logits differ from token "
                   "1 on by 0.059 of the largest, 5e-06 is rounding; 1 at token 52",
        .cannot_tell = "It does not see a plan that is chosen by a capacity larger than the one asked for.",
        .fix = "Choose factors and bases by the tokens seen, or state the recipe that does otherwise."},
    Rule{.id = "M111",
         .name = "given-positions",
         .severity = Severity::error,
         .summary = "Positions that are given are not read, or the count without them is another one.",
         .needs = "a live runtime that takes positions",
         .example =
             "a prompt without positions beside the same with positions 0, 1, 2 .. given: logits differ from "
             "token 0 on by 0.91 of the largest, 5e-06 is rounding; without positions it counts from 1",
         .cannot_tell =
             "It does not see a count from elsewhere where positions act by their differences alone.",
         .fix = "Pass positions on to every layer; begin at 0 without them."},
    Rule{.id = "M112",
         .name = "fork",
         .severity = Severity::error,
         .summary = "A forked session, or the one it came from, goes on in another way than alone.",
         .needs = "a live runtime whose sessions can be forked",
         .example = "the session that was forked, 4 steps in turn with the other one, beside the same steps "
                    "alone: logits differ from token 65 on by 0.62 of the largest, 5e-06 is rounding",
         .cannot_tell = "It does not see copies that share memory which neither of them writes.",
         .fix = "Copy the cache and its counts, not references to them."},
    Rule{.id = "M113",
         .name = "later-tokens",
         .severity = Severity::error,
         .summary = "Earlier tokens get other logits when more tokens stand behind them.",
         .needs = "a live runtime of a model whose tokens see earlier ones alone",
         .example = "the first 95 of 96 tokens beside the same 95 alone: logits differ from token 0 on by "
                    "0.21 of the largest, 5e-06 is rounding; 0.77 at token 88; other tokens behind them "
                    "change it again: later tokens are visible",
         .cannot_tell = "It does not see the cause where neither tokens nor their number in one call matter.",
         .fix = "Add the causal mask; build tables that do not depend on the length of a call."},
    Rule{.id = "P101",
         .name = "position-repeated",
         .severity = Severity::error,
         .summary = "Several tokens of a row have one position.",
         .needs = kPlaces,
         .example = "q of layer 0, k of layer 0: position 18 is given to 6 tokens of row 0; at step 2, row "
                    "0, token 0 position 19 is due",
         .cannot_tell = "It does not see tokens that share a position on purpose, as in trees of drafts.",
         .fix = "Advance the position with every token; look at what is kept between calls."},
    Rule{.id = "P102",
         .name = "position-skipped",
         .severity = Severity::error,
         .summary = "Positions leave numbers out.",
         .needs = kPlaces,
         .example = "position_ids: row 0 skips 18 positions at step 1, row 0, token 0: 36 where 18 is due, "
                    "and all that follow",
         .cannot_tell = "It does not see texts that were cut on purpose.",
         .fix = "Look at what is added to the position after the prompt."},
    Rule{.id = "P103",
         .name = "position-shifted",
         .severity = Severity::error,
         .summary = "Positions are off by one number.",
         .needs = kPlaces,
         .example = "q of layer 1, k of layer 1: row 0 is moved by +1 from step 1, row 0, token 0 on: "
                    "position 19 where 18 is due",
         .cannot_tell = "It does not see a shift of everything where only distances matter: that is a note.",
         .fix = "Check where counting begins."},
    Rule{.id = "P104",
         .name = "padding-counted",
         .severity = Severity::error,
         .summary = "Positions count padding.",
         .needs = "position_ids or fitted positions, and attention_mask",
         .example = "embed.positions: row 0 counts its 7 pads: content starts at position 7 where 0 is due",
         .cannot_tell = "It does not see right padding, which counting does not reach.",
         .fix = "Derive positions from the mask, or pass position_ids."},
    Rule{.id = "P105",
         .name = "counted-over-batch",
         .severity = Severity::error,
         .summary = "Positions go on from one row of the batch to the next.",
         .needs = "position_ids or fitted positions of two rows",
         .example = "position_ids: positions are counted over the batch: row 1 starts at 24 where 0 is due",
         .cannot_tell = "It does not see batches of one row.",
         .fix = "Start every row at its own first position."},
    Rule{.id = "P106",
         .name = "position-restarted",
         .severity = Severity::error,
         .summary = "Positions start over inside a row.",
         .needs = kPlaces,
         .example = "position_ids: row 0 starts over at step 1, row 0, token 0: position 0 where 18 is due",
         .cannot_tell = "It does not see documents whose boundaries are not in segment_ids.",
         .fix = "Keep the position between calls."},
    Rule{.id = "P107",
         .name = "document-not-restarted",
         .severity = Severity::error,
         .summary = "Positions go on over a document's boundary.",
         .needs = "position_ids or fitted positions, and segment_ids",
         .example = "position_ids: row 0 does not start over at its document boundary: token 12 has position "
                    "12 where 0 is due",
         .cannot_tell = "It does not see rows with one document.",
         .fix = "Start every packed document at 0."},
    Rule{.id = "P108",
         .name = "position-backwards",
         .severity = Severity::error,
         .summary = "Positions go back to smaller numbers.",
         .needs = kPlaces,
         .example = "position_ids: positions of row 0 go back at step 5, row 0, token 0: from 31 to 12 where "
                    "32 is due",
         .cannot_tell = "It does not see caches that recount their slots on purpose.",
         .fix = "Count what was seen, not what is kept, after eviction."},
    Rule{.id = "P109",
         .name = "position-multiplied",
         .severity = Severity::error,
         .summary = "Positions are multiples of those due.",
         .needs = kPlaces,
         .example = "position_ids: positions of row 0 are multiplied by 2: 2 where 1 is due",
         .cannot_tell = "It does not see doubled rotation, which looks the same in q and k.",
         .fix = "Look for a scale that is applied to positions."},
    Rule{.id = "P110",
         .name = "position-axes",
         .severity = Severity::error,
         .summary = "Image or video tokens have other positions than their grid gives.",
         .needs = "position_ids on three axes, input_ids and a model's config",
         .example = "position_ids: axis 0 (time) of row 0: token 4 has 8 where 4 is due",
         .cannot_tell = "It does not see grids that were not recorded and cannot be read off the ids.",
         .fix = "Check time steps, the start of each image and what follows behind it."},
    Rule{.id = "P111",
         .name = "positions-differ",
         .severity = Severity::error,
         .summary = "Positions differ from those due in no known pattern.",
         .needs = kPlaces,
         .example = "position_ids: positions of row 0 differ from those due, first at row 0, token 5: 3 "
                    "where 5 is due",
         .cannot_tell = "It does not see the cause.",
         .fix = "Print the positions of the row that is named."},
    Rule{.id = "P112",
         .name = "rank-positions",
         .severity = Severity::error,
         .summary = "The ranks of a context-parallel run do not share a row's positions out.",
         .needs = "a directory of traces, one a rank, with other input_ids and position_ids in each",
         .example = "position_ids of 2 ranks: each rank counts from 0",
         .cannot_tell =
             "It does not see which tokens a rank ought to hold: positions that are shared out in another "
             "order than the tokens (zigzag against contiguous) show in q and k alone.",
         .fix = "Give each rank its slice of the whole row's positions."},
    Rule{.id = "P113",
         .name = "cache-keys",
         .severity = Severity::error,
         .summary = "A slot of the cache holds another key than was written for it.",
         .needs = "layers.N.cache.k, and .k of this pass and earlier ones, and a model",
         .example = "cache.k of layer 0: slot 3 holds the key of token 9 where that of token 3 is due",
         .cannot_tell =
             "It does not see keys from before the recording, but for those that stand there twice.",
         .fix = "Look at what is kept after eviction, at how a ring wraps, and at pieces of a cache that are "
                "joined: "
                "a key that changes its place is turned by the difference."},
    Rule{.id = "R101",
         .name = "pairing",
         .severity = Severity::error,
         .summary = "Channels are paired otherwise than planned.",
         .needs = kQk,
         .example = "q and k in layers 0 to 1: interleaved pairs in channels 0 to 15 where half pairs in "
                    "channels 0 to 15 are due",
         .cannot_tell =
             "It does not see weights that were permuted to match the other pairing: then q.k is right.",
         .fix = "Rotate halves where the plan says half, or permute the weights of q and k."},
    Rule{.id = "R102",
         .name = "rotated-width",
         .severity = Severity::error,
         .summary = "Another part of the head is rotated than planned.",
         .needs = kQk,
         .example = "q and k in layers 0 to 1: half pairs in channels 0 to 15 where half pairs in channels 0 "
                    "to 7 are due",
         .cannot_tell = "It does not see parts whose angles are too small to see in a short text.",
         .fix = "Check rotary_dim and its fraction."},
    Rule{.id = "R103",
         .name = "rotated-twice",
         .severity = Severity::error,
         .summary = "Angles are twice those due.",
         .needs = kQk,
         .example = "q and k in layer 0: the rotation is applied twice, or positions are doubled; pair 0: 2 "
                    "rad/token where 1 is due",
         .cannot_tell =
             "It does not see doubled positions: amplitude alone tells them apart, where it is not 1.",
         .fix = "Look for a rotation inside a fused kernel besides the explicit one."},
    Rule{.id = "R104",
         .name = "not-rotated",
         .severity = Severity::error,
         .summary = "q or k is not rotated.",
         .needs = kQk,
         .example = "k in layers 0 to 1: no rotation is applied; pair 0: 0 rad/token where 1 is due",
         .cannot_tell = "It does not see tokens at position 0.",
         .fix = "Apply the rotation to both q and k."},
    Rule{.id = "R105",
         .name = "turns-back",
         .severity = Severity::error,
         .summary = "The rotation turns the other way.",
         .needs = kQk,
         .example =
             "q and k in layer 0: the rotation turns the other way; pair 0: -1 rad/token where 1 is due",
         .cannot_tell = "It does not see a sign that q and k share only changes the direction of distances.",
         .fix = "Swap the sign of the sine."},
    Rule{.id = "R106",
         .name = "theta",
         .severity = Severity::error,
         .summary = "The ladder has another base.",
         .needs = kQk,
         .example = "q and k in layers 0 to 1: theta 10000, the usual default, where 500000 is due; pair 7: "
                    "0.000316 rad/token where 1e-05 is due",
         .cannot_tell = "It does not see one token: a base needs two positions.",
         .fix = "Pass rope_theta on; look for a default of 10000."},
    Rule{.id = "R107",
         .name = "rope-scaling",
         .severity = Severity::error,
         .summary = "Frequencies follow another schedule, factor or length than planned.",
         .needs = kQk,
         .example = "q and k in layers 0 to 1: plain rope: llama3 is not applied; pair 6: 0.001 rad/token "
                    "where 0.000125 is due",
         .cannot_tell = "It does not see texts that are too short for the slow pairs to turn.",
         .fix = "Check which schedule is read and its numbers."},
    Rule{.id = "R108",
         .name = "amplitude",
         .severity = Severity::error,
         .summary = "q or k is stretched by another amplitude.",
         .needs = kQk,
         .example =
             "q and k in layers 0 to 1: the amplitude is 1 where 1.2773 is due: the amplitude is not applied",
         .cannot_tell = "It does not see an amplitude that was moved into the softmax scale.",
         .fix = "Apply the attention factor once, to cos and sin."},
    Rule{.id = "R109",
         .name = "q-and-k-differ",
         .severity = Severity::error,
         .summary = "q and k of a layer stand at different positions.",
         .needs = kQk,
         .example = "q and k in layer 1: q and k stand at different positions: q not where it is due",
         .cannot_tell = "It does not see layers whose q or k was not recorded.",
         .fix = "Use one position for both."},
    Rule{.id = "R110",
         .name = "wrong-layer",
         .severity = Severity::error,
         .summary = "A layer is rotated as another one ought to be, or though it marks no positions.",
         .needs = kQk,
         .example = "q in layer 3: q is rotated in a layer that marks no positions",
         .cannot_tell = "It does not see layers with equal plans.",
         .fix = "Check the pattern of layers with and without rotation."},
    Rule{.id = "R111",
         .name = "no-rotation",
         .severity = Severity::error,
         .summary = "What happens to q or k is not the planned rotation in any known form.",
         .needs = kQk,
         .example = "q and k in layer 0: what happens to the tensor is no rotation of pairs that its heads "
                    "share; 0.8 of its length is left unexplained",
         .cannot_tell = "It does not see the cause.",
         .fix = "Record q_pre directly before and q directly after the rotation, as whole heads."},
    Rule{.id = "R112",
         .name = "angles-rounded",
         .severity = Severity::error,
         .summary = "Frequencies, positions or angles were rounded to 16 bits.",
         .needs = kQk,
         .example = "q and k in layer 0: positions and angles are rounded to bf16",
         .cannot_tell = "It does not see positions below 256 in bf16, below 2048 in f16.",
         .fix = "Compute angles in f32 and round cos and sin alone."},
    Rule{.id = "R113",
         .name = "rotation-axes",
         .severity = Severity::error,
         .summary = "Pairs follow other position axes than planned.",
         .needs = kQk,
         .example = "q and k in layers 0 to 1: every pair follows the time axis",
         .cannot_tell = "It does not see text, whose axes are all equal.",
         .fix = "Check the sections and whether they interleave."},
    Rule{.id = "T101",
         .name = "table-theta",
         .severity = Severity::error,
         .summary = "A table has the ladder of another base.",
         .needs = kTables,
         .example = "rope.cos: theta 10000, the usual default, where 500000 is due; pair 7: 0.000316 "
                    "rad/token where 1e-05 is due",
         .cannot_tell = "It does not see tables of one position.",
         .fix = "Pass rope_theta on; look for a default of 10000."},
    Rule{.id = "T102",
         .name = "table-scaling",
         .severity = Severity::error,
         .summary = "A table follows another schedule, factor or length than planned.",
         .needs = kTables,
         .example = "rope.cos: dynamic_ntk as for 60 tokens seen, where 14 were; pair 7: 7.03e-05 rad/token "
                    "where 0.000316 is due",
         .cannot_tell = "It does not see tables too short for the slow pairs to turn.",
         .fix = "Check which schedule is read; rebuild tables when the length changes."},
    Rule{.id = "T103",
         .name = "table-rounded",
         .severity = Severity::error,
         .summary = "A table was computed from frequencies, positions or angles of 16 bits.",
         .needs = kTables,
         .example = "rope.cos: frequencies and positions and angles are rounded to bf16; from position 256 "
                    "on neighbours share a row, 81 of 419 do",
         .cannot_tell = "It does not see positions below 256 in bf16, below 2048 in f16.",
         .fix = "Compute tables in f32 and round the result."},
    Rule{.id = "T104",
         .name = "table-junk",
         .severity = Severity::error,
         .summary = "A table holds no planned ladder in any known form.",
         .needs = kTables,
         .example = "rope.cos: no ladder of frequencies and no whole positions give these numbers; the plan "
                    "leaves 1.3 of them unexplained",
         .cannot_tell = "It does not see the cause.",
         .fix = "Check that the buffer is filled after loading and kept in its dtype."},
    Rule{.id = "T105",
         .name = "table-amplitude",
         .severity = Severity::error,
         .summary = "A table carries another amplitude than planned.",
         .needs = kTables,
         .example = "rope.cos: the amplitude is 1 where 1.3466 is due",
         .cannot_tell = "It does not see an amplitude that was moved into the softmax scale.",
         .fix = "Check attention_factor, mscale and mscale_all_dim."},
    Rule{.id = "T106",
         .name = "table-end",
         .severity = Severity::error,
         .summary = "A position asks for a row that a trained table does not have.",
         .needs = "position_ids or input_ids, and a model with a table of positions",
         .example = "position 512 asks for row 514 of a table with 514 rows",
         .cannot_tell = "It does not see what a runtime does there: clamp, wrap or read past the end.",
         .fix = "Cut or refuse longer texts; look at the table's offset."},
    Rule{.id = "W101",
         .name = "vocabulary-rows",
         .severity = Severity::error,
         .summary = "The embedding has fewer rows than the config's vocabulary.",
         .needs = "a model's config and its weights",
         .example = "model.embed_tokens.weight has 32000 rows, the vocabulary of the config has 32064",
         .cannot_tell = "It does not see which rows a tokenizer fills: more rows than tokens are padding.",
         .fix = "Resize the embedding, or take the vocabulary that the weights were trained with."},
    Rule{.id = "W102",
         .name = "head-empty",
         .severity = Severity::error,
         .summary = "The head holds one number in every element.",
         .needs = "a model's config and its weights",
         .example = "every element of lm_head.weight is 0",
         .cannot_tell = "It does not see random heads: their numbers look like trained ones.",
         .fix = "Tie the head, or convert it from the file that has it."},
    Rule{.id = "W103",
         .name = "tie-contradicted",
         .severity = Severity::error,
         .summary = "The config ties the head to the embedding, and the file has another head.",
         .needs = "a model's config and its weights",
         .example =
             "tie_word_embeddings says the head is tied, but lm_head.weight is in the file and differs from "
             "model.embed_tokens.weight",
         .cannot_tell = "It does not see which of the two was trained: record logits.",
         .fix = "Set tie_word_embeddings to false, or leave the head out of the file."},
    Rule{.id = "W104",
         .name = "position-table-rows",
         .severity = Severity::error,
         .summary = "The trained table of positions has another number of rows than the config gives.",
         .needs = "a model's config with learned positions and its weights",
         .example = "decoder.embed_positions.weight has 2048 rows where the plan's table has 2050 (offset 2)",
         .cannot_tell = "It does not see tables whose names say nothing of positions.",
         .fix = "Check the offset in front of the table and max_position_embeddings."},
    Rule{.id = "W105",
         .name = "conversion-tensors",
         .severity = Severity::error,
         .summary = "A tensor of one form of the model is missing in the other, or has another shape there.",
         .needs = kBoth,
         .example = "m.gguf has no counterpart of self_attn.k_proj.bias of layers 0 to 3, which "
                    "hf/model.safetensors has",
         .cannot_tell = "It does not compare names that it has no counterpart for (experts, projectors): it "
                        "counts them in a note.",
         .fix = "Convert again with a converter that knows the architecture; look at what it skipped."},
    Rule{.id = "W106",
         .name = "rows-permuted",
         .severity = Severity::error,
         .summary = "The rows of q or k stand in another order than the pairings of the two forms ask for.",
         .needs = kBoth,
         .example = "k of layers 0 to 4 is permuted to neighbouring pairs with 8 heads where 4 are due",
         .cannot_tell =
             "It does not see an order that is the same for q and k of a layer without a rotation, "
             "nor one of heads of two channels: they change nothing.",
         .fix = "Permute q with the number of its heads and k with that of the key heads, once, and only "
                "where the pairing changes."},
    Rule{.id = "W107",
         .name = "values-differ",
         .severity = Severity::error,
         .summary = "A tensor holds other numbers than its storage rounds those of the other form to.",
         .needs = kBoth,
         .example = "output_norm.weight is that of the source where plus 1 is due",
         .cannot_tell = "Of a big matrix it looks at 128 rows, the first and last 16 among them; it does not "
                        "see what is smaller than the steps of a quantisation.",
         .fix = "Take the tensor from the source again; the cause names where the numbers come from."},
    Rule{.id = "W108",
         .name = "meaning-differs",
         .severity = Severity::error,
         .summary = "The configs of the two forms mean different sizes, positions, embeddings or heads.",
         .needs = "a model and --against another form of it",
         .example =
             "rotation of layers 0 to 4: inv_freq differs at 3 of 4 pairs, most at pair 1: 0.1 instead "
             "of 0.0376060309; theta is 10000 where the source has 500000",
         .cannot_tell =
             "It does not compare what one of the formats cannot state, nor how a runtime reads it.",
         .fix = "Write the key into the conversion, or convert again with one that copies it."},
    Rule{.id = "W109",
         .name = "layers-missing",
         .severity = Severity::error,
         .summary =
             "The file lacks a layer that the config counts, or a projection that the other layers have.",
         .needs = kWeights,
         .example = "the config has 30 layers, the file lacks layers 28 to 29",
         .cannot_tell = "It does not see layers whose names carry no number, nor a projection that many "
                        "layers lack by design.",
         .fix = "Fetch the shards that are missing, or save the model again; a runtime fills the gap with "
                "random numbers."},
    Rule{.id = "W110",
         .name = "projection-rows",
         .severity = Severity::error,
         .summary = "The projection of q or k has other rows than the heads of the config make.",
         .needs = kWeights,
         .example = "model.layers.0.self_attn.k_proj.weight has 64 rows where 4 key heads of 8 make 32",
         .cannot_tell = "It does not judge models whose layers differ in their heads.",
         .fix = "Correct the number of heads, of key heads or head_dim in the config."},
    Rule{
        .id = "W111",
        .name = "never-trained",
        .severity = Severity::warning,
        .summary = "The head looks like numbers just drawn beside a trained embedding, or the reverse.",
        .needs = "a model's weights with a head of its own, 32 rows and columns or more",
        .example = "lm_head.weight looks newly drawn beside model.embed_tokens.weight: the norms of its rows "
                   "spread 1 times as far as independent numbers do",
        .cannot_tell = "It does not see a matrix of which only some rows are new, nor one that was trained a "
                       "little; where both look drawn it is silent.",
        .fix = "Look for a key that was renamed or left out when the model was saved or loaded; tie the head "
               "if it should be tied."},
    Rule{.id = "W112",
         .name = "head-is-embedding",
         .severity = Severity::note,
         .summary = "The config does not tie the head, and the head holds the numbers of the embedding.",
         .needs = "a model's weights with a head of its own, and a config that does not tie it",
         .example = "lm_head.weight holds the numbers of model.embed_tokens.weight although the config does "
                    "not tie them",
         .cannot_tell = "It does not see whether the head was lost or was tied in training.",
         .fix = "Set tie_word_embeddings to true, or take the head from the checkpoint that has it."},
    Rule{.id = "W113",
         .name = "rows-and-tokens",
         .severity = Severity::warning,
         .summary =
             "The tokenizer makes ids that the embedding has no row for; or, as a note, rows belong to "
             "no token.",
         .needs = "a model's weights and its tokenizer.json, or a GGUF file with its tokens",
         .example = "the tokenizer makes ids up to 32000, model.embed_tokens.weight has rows up to 31999",
         .cannot_tell = "It does not see which rows were trained, nor a tokenizer of another kind or of more "
                        "than 16 MiB.",
         .fix = "Resize the embedding with the tokenizer; mask the logits of rows that belong to no token."},
};

}  // namespace

// The config's rules belong to the room that reads configs; here they join the others.
std::span<const Rule> rules() noexcept {
  static const std::vector<Rule> kAll = [] {
    std::vector<Rule> all(kRules.begin(), kRules.end());
    all.insert(all.end(), config_rules().begin(), config_rules().end());
    std::sort(all.begin(), all.end(), [](const Rule& a, const Rule& b) { return a.id < b.id; });
    return all;
  }();
  return kAll;
}

const Rule& find_rule(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Rule& rule : rules()) {
    if (rule.id == name || rule.name == name) return rule;
    known.push_back(rule.id);
    known.push_back(rule.name);
  }
  const std::string near = nearest_name(name, known);
  throw SpecError(fmt::format("check: a rule is one of {}, got \"{}\"{}", rules().size(), name,
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

std::string_view name_of(EvidenceKind kind) noexcept {
  switch (kind) {
    case EvidenceKind::files:
      return "files";
    case EvidenceKind::tables:
      return "tables";
    case EvidenceKind::trace:
      return "trace";
    case EvidenceKind::live:
      return "live";
  }
  return "?";
}

}  // namespace locant
