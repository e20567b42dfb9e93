"""The compiled part of Locant; use it through the package `locant`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import numpy.typing


def version() -> str:
    """The version of the library."""

class SpecError(ValueError):
    """
    A config, spec, shape or argument that breaks a rule: "who: rule, what we got".
    """

class FileError(OSError):
    """
    A file that cannot be read, written or believed: `path`, and `offset` in bytes where it is known.
    """

def set_threads(count: int) -> None:
    """
    Threads of later operations and of models loaded from here on, 1 or more. Results do not depend on it.
    """

def get_threads() -> int:
    """
    Threads in use; at the first call as many as the machine offers this process.
    """

def cpu_targets() -> list[str]:
    """The instruction sets compiled in that this CPU has, best first."""

def use_cpu_target(name: str) -> None:
    """
    Every operation uses this one of cpu_targets(), "" = the best again. Not while operations run.
    """

class Deviation:
    """One difference of a recipe from the published formula."""

    @property
    def touches(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def evidence(self) -> str: ...

    @property
    def tested_live(self) -> bool: ...

class Recipe:
    """Whose meaning a config is read under: "exact", "hf", "llama.cpp", ..."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def deviations(self) -> list[Deviation]: ...

    def __repr__(self) -> str: ...

def recipes() -> list[Recipe]:
    """All recipes."""

def recipe(name: str) -> Recipe:
    """The recipe of that name; SpecError with the nearest one otherwise."""

class Rotation:
    """Rotation of pairs of channels of q and k (the RoPE family)."""

    @property
    def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]:
        """[P] rad/token, f64."""

    @property
    def axis(self) -> numpy.typing.NDArray[numpy.int64]:
        """[P] the position axis that drives a pair; empty: axis 0 for all."""

    @property
    def amplitude(self) -> float:
        """Factor on cos and sin."""

    @property
    def pairing(self) -> str:
        """
        "half" (i, i + d/2) or "interleaved" (2i, 2i+1): how input channels are paired.
        """

    @property
    def write_pairing(self) -> str:
        """How output channels are laid out."""

    @property
    def head_dim(self) -> int:
        """Elements of one head."""

    @property
    def offset(self) -> int:
        """First rotated channel."""

    @property
    def rotary_dim(self) -> int:
        """Rotated channels, 2P."""

    @property
    def sign(self) -> float:
        """-1 rotates the other way."""

    @property
    def shared_key(self) -> bool:
        """One rotated key for all heads."""

    @property
    def acts_on(self) -> list[str]:
        """Which of q, k, v and (rotated back) the attention output."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class Bias:
    """Addition to the attention scores."""

    @property
    def form(self) -> str:
        """"slopes" (ALiBi), "buckets" (T5), "function" or "content"."""

    @property
    def heads(self) -> int: ...

    @property
    def slopes(self) -> numpy.typing.NDArray[numpy.float64]:
        """[heads] 1/token, form slopes."""

    @property
    def buckets(self) -> int:
        """Rows of the table, form buckets."""

    @property
    def max_distance(self) -> int:
        """Tokens."""

    @property
    def counts_from(self) -> str: ...

    @property
    def bidirectional(self) -> bool: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class QueryScale:
    """Factor on q as a function of its position."""

    @property
    def form(self) -> str: ...

    @property
    def scale(self) -> float: ...

    @property
    def floor(self) -> float:
        """Tokens."""

    @property
    def shift(self) -> float:
        """Tokens."""

    def factor(self, position: int) -> float:
        """The factor at a position, f64."""

    def __eq__(self, arg: object, /) -> bool: ...

class PositionEmbedding:
    """Addition to the token state."""

    @property
    def form(self) -> str:
        """"table", "sinusoid" or "token_types"."""

    @property
    def rows(self) -> int:
        """Rows of the table; 0: a generator without end."""

    @property
    def width(self) -> int: ...

    @property
    def offset(self) -> int:
        """row = position + offset."""

    @property
    def first_position(self) -> int: ...

    @property
    def scale(self) -> float: ...

    @property
    def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]:
        """[width/2] rad/token, form sinusoid."""

    def __eq__(self, arg: object, /) -> bool: ...

class PositionSpec:
    """One mechanism with its parameters, as a model states it."""

    def __init__(self, mechanism: str, parameters: Mapping[str, int | float | str | Sequence[float]] = {}) -> None: ...

    @property
    def mechanism(self) -> str:
        """"rope", "yarn", "alibi", "learned", ..."""

    @property
    def parameters(self) -> dict[str, int | float | str | list[float]]:
        """What is stated, by name."""

    @property
    def keys(self) -> dict[str, str]:
        """The config key that each parameter was read from; "": a default."""

    def plan(self, recipe: str = 'exact', *, seen: int = 0, capacity: int = 0) -> PositionEmbedding | Rotation | Bias | QueryScale:
        """
        What follows from it when `seen` tokens are there and the runtime was opened for `capacity`. SpecError
        "mechanism: rule, what we got" on a bad parameter.
        """

    def __repr__(self) -> str: ...

class LayerPositions:
    """The sites of one kind of layer; nothing: a layer without positions."""

    @property
    def rotation(self) -> Rotation | None: ...

    @property
    def bias(self) -> Bias | None: ...

    @property
    def query_scale(self) -> QueryScale | None: ...

class Plan:
    """The positions of one stack under a recipe."""

    @property
    def recipe(self) -> str: ...

    @property
    def stack(self) -> str: ...

    @property
    def embedding(self) -> list[PositionEmbedding]:
        """What is added to the token state."""

    @property
    def layers(self) -> list[int]:
        """[layers] index into `kinds`."""

    @property
    def kinds(self) -> list[LayerPositions]: ...

    def layer(self, layer: int) -> LayerPositions:
        """The sites of one layer; IndexError past the last."""

    def __eq__(self, arg: object, /) -> bool:
        """Equal numbers, whatever the recipe's name."""

    def __repr__(self) -> str: ...

class ParameterDescription:
    """A parameter of a mechanism."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def default(self) -> str:
        """"": required."""

    @property
    def config_keys(self) -> str: ...

    @property
    def meaning(self) -> str: ...

class Mechanism:
    """A way to tell a model where a token stands."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> list[str]: ...

    @property
    def site(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def formula(self) -> str: ...

    @property
    def paper(self) -> str: ...

    @property
    def parameters(self) -> list[ParameterDescription]: ...

    def __repr__(self) -> str: ...

def mechanisms() -> list[Mechanism]:
    """All mechanisms."""

def mechanism(name: str) -> Mechanism:
    """By name or alias; SpecError with the nearest one otherwise."""

def rotation_tables(rotation: Rotation, positions: object, recipe: str, run_dtype: str) -> tuple[numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]:
    """cos and sin [T, P]; positions [T] or [axes, T] int64."""

def sinusoid_rows(embedding: PositionEmbedding, positions: object, recipe: str, run_dtype: str) -> numpy.typing.NDArray[numpy.float32]:
    """What is added at positions [T]: [T, width]."""

def bias_scores(bias: Bias, queries: object, keys: object, recipe: str) -> numpy.typing.NDArray[numpy.float32]:
    """
    What a bias of form slopes adds: [heads, Q, K] for positions [Q] and [K] int64.
    """

def alibi_slopes(heads: int, bias_max: float = 8.0) -> numpy.typing.NDArray[numpy.float64]:
    """ALiBi's slopes for any number of heads, f64, 1/token."""

def t5_bucket(relative: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> int:
    """T5's bucket of key position - query position, exact at any distance."""

def deberta_bucket(relative: int, *, buckets: int = 256, max_distance: int = 512) -> int:
    """DeBERTa-v2's signed bucket of query position - key position."""

def masked_positions(mask: object, start: int = 0, pad_value: int = 0) -> numpy.typing.NDArray[numpy.int64]:
    """
    Positions of a padded batch, mask [B, T] int64 with 1 = token: content counts from `start` in each row.
    """

class Note:
    """Something odd in what a model says, or a key that nobody reads."""

    @property
    def text(self) -> str: ...

    @property
    def rule(self) -> str:
        """Id of the rule that says more; "": none."""

    @property
    def key(self) -> str:
        """The dotted key it is about; "": no single one."""

    def __repr__(self) -> str: ...

class Spec:
    """What a model says of itself, read from its config."""

    @staticmethod
    def from_config(config: object) -> Spec:
        """
        From a path, a bundled model's name, a config as a dict, or a transformers model or config.
        """

    @property
    def family(self) -> str:
        """"llama", "gpt2", ..."""

    @property
    def format(self) -> str:
        """"hf", "meta", "llama2c" or "gguf"."""

    @property
    def path(self) -> str:
        """Of the config."""

    @property
    def layers(self) -> int: ...

    @property
    def hidden(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def kv_heads(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def vocab(self) -> int: ...

    @property
    def generic(self) -> bool:
        """The family is not known: keys are read as most families mean them."""

    @property
    def trained_length(self) -> int | None:
        """Tokens, where a key states it."""

    @property
    def configured_length(self) -> int | None:
        """Tokens that it offers."""

    @property
    def embedding_positions(self) -> list[PositionSpec]:
        """Mechanisms at the embedding."""

    @property
    def layer_positions(self) -> list[list[PositionSpec]]:
        """
        [layers] the mechanisms of each layer; an empty list: a layer without positions.
        """

    @property
    def notes(self) -> list[Note]: ...

    @property
    def eos(self) -> list[int]:
        """Ids that end a text."""

    @property
    def decoder_start(self) -> int | None:
        """
        First id of a decoder beside an encoder; None where the config states none.
        """

    @property
    def bos(self) -> int | None:
        """Id that begins a text."""

    def __repr__(self) -> str: ...

def read_spec(path: str) -> Spec:
    """
    Reads config.json, params.json, a .gguf file or a directory; what is not understood becomes a note.
    """

def read_spec_strict(path: str) -> Spec:
    """
    Reads config.json of a Hugging Face model; what is not understood is a SpecError.
    """

def weights_beside(path: str, spec: Spec) -> str:
    """
    Where the weights of a model lie that was read at `path`; "" for a bare config.
    """

def plan(spec: Spec, recipe: str, seen: int, capacity: int, stack: str) -> Plan:
    """The plan of a stack; an empty recipe or stack: the model's own."""

def facts_json(spec: Spec, weights: str, recipe: str, distance: int | None, capacity: int | None) -> str:
    """What `locant inspect --json` prints."""

def families() -> list[str]:
    """Families that configs are known of."""

def embed_into(table: object, ids: object, out: object, scale: float) -> None: ...

def add_rows_into(table: object, rows: object, out: object) -> None: ...

def rotate_into(x: object, cos: object, sin: object, out: object, read: str, write: str, offset: int, direction: str) -> None: ...

def project_into(x: object, weight: object, bias: object | None, out: object, scale: float) -> None: ...

def attend_into(q: object, keys: object, values: object, out: object, first_slot: int, scale: float, slopes: object | None, query_positions: object | None, key_positions: object | None, scores: object | None) -> None: ...

class Tokenizer:
    """Ids to text and back, by Locant's own reader."""

    @property
    def kind(self) -> str:
        """"byte-level", "sentencepiece"."""

    @property
    def vocab(self) -> int:
        """Ids it can make, special ones included."""

    def encode(self, text: str) -> list[int]:
        """
        The ids of a prompt, with the special tokens that the model's own tokenizer puts in front.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""

    def piece(self, id: int) -> str:
        """One token as a person would recognise it."""

def open_tokenizer(model: str) -> tuple[Tokenizer | None, str]:
    """
    A tokenizer, or the sentence that says why there is none; both for one that only decodes.
    """

def gguf_values(path: str, prefix: str) -> dict[str, Any]:
    """
    The metadata of a .gguf file under a prefix, by the rest of their keys.
    """

class Session:
    """The caches of a batch of rows. One call at a time."""

    def forward(self, ids: object, mask: object | None = None, positions: object | None = None) -> numpy.typing.NDArray[numpy.float32]:
        """
        Feeds ids [B, T] (int64) behind what the cache holds; returns logits [B, T, V], NaN at padding.

        mask [B, S] int64, 1 = token; its last T columns are this call's. positions [axes, B, T] int64; none:
        each row's content counts on from its cache. IndexError: an id, a position, the capacity; SpecError:
        shapes. Nothing is fed when it raises.
        """

    def fork(self) -> Session:
        """An independent copy of the state; SpecError where the runtime cannot."""

def open_session(runtime: object, capacity: int) -> Session:
    """A session of a locant.Runtime, driven as the rules drive it."""

class LoadedModel:
    """A model that runs: ids to logits. Immutable, shared by its sessions."""

    @property
    def spec(self) -> Spec: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def recipe(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def vocab(self) -> int: ...

    @property
    def parameters(self) -> int:
        """Elements, tied ones once."""

    @property
    def weight_bytes(self) -> int: ...

    @property
    def last_position(self) -> int | None:
        """
        Last position that the embedding site has a row for; None without a table.
        """

    def open(self, capacity: int, *, rows: int | None = None, cache: str = 'f32') -> Session:
        """
        A session for up to `capacity` tokens a row; `rows` = B, else that of the first call (1 for a cache in
        f16, bf16 or int8). IndexError past a table's end.
        """

    def generate_rows(self, ids: Sequence[Sequence[int]], tokens: int, end_tokens: Sequence[int], *, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0, encoder_ids: Sequence[Sequence[int]] = []) -> list[list[int]]: ...

    @property
    def has_head(self) -> bool: ...

    @property
    def has_encoder(self) -> bool: ...

    def logits_rows(self, ids: Sequence[Sequence[int]], encoder_ids: Sequence[Sequence[int]]) -> numpy.typing.NDArray[numpy.float32]: ...

    def states_rows(self, ids: Sequence[Sequence[int]]) -> numpy.typing.NDArray[numpy.float32]: ...

def load(path: str, recipe: str, run_dtype: str, weights: str, activations: str, threads: int | None) -> LoadedModel: ...

def runnable_families() -> list[str]:
    """Families that load() runs."""

class TraceReader:
    """A trace file: tensors by canonical name, mapped and checked."""

    def __init__(self, path: str) -> None:
        """FileError for what is no trace."""

    @property
    def names(self) -> list[str]:
        """In the order of the file; a later pass stands behind "step.N/"."""

    @property
    def steps(self) -> int:
        """Passes recorded, 1 or more."""

    def metadata(self, key: str) -> str:
        """"" when absent."""

    def __getitem__(self, name: str) -> numpy.typing.NDArray[Any]:
        """
        A read-only numpy array on the file's memory (bf16: a copy in f32). KeyError when absent.
        """

    def __contains__(self, arg: str, /) -> bool: ...

    def __len__(self) -> int: ...

class Rule:
    """A rule of the checker, and what its page says."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def severity(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def needs(self) -> str: ...

    @property
    def example(self) -> str: ...

    @property
    def cannot_tell(self) -> str: ...

    @property
    def fix(self) -> str: ...

    def __repr__(self) -> str: ...

class Place:
    """Where a finding begins; what does not apply is empty or None."""

    @property
    def file(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def tensor(self) -> str: ...

    @property
    def layer(self) -> int | None: ...

    @property
    def head(self) -> int | None: ...

    @property
    def step(self) -> int | None: ...

    @property
    def row(self) -> int | None: ...

    @property
    def token(self) -> int | None: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Hypothesis:
    """A cause that would reproduce what was recorded, and how well."""

    @property
    def cause(self) -> str: ...

    @property
    def parameters(self) -> dict[str, float]: ...

    @property
    def residual(self) -> float:
        """Relative root mean square of what it leaves unexplained."""

    @property
    def budget(self) -> float:
        """What rounding alone explains, in the same measure."""

    def __repr__(self) -> str: ...

class Finding:
    """What a rule found."""

    @property
    def rule(self) -> str:
        """Its id: "R103"."""

    @property
    def name(self) -> str:
        """Its name: "rotated-twice"."""

    @property
    def severity(self) -> str: ...

    @property
    def message(self) -> str:
        """One sentence with numbers."""

    @property
    def where(self) -> Place: ...

    @property
    def expected(self) -> float | str | None: ...

    @property
    def observed(self) -> float | str | None: ...

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """Best first."""

    @property
    def next(self) -> str:
        """What to look at or record."""

    def __repr__(self) -> str: ...

class Explained:
    """A finding that another one reproduces: not counted."""

    @property
    def finding(self) -> Finding: ...

    @property
    def by(self) -> str:
        """Id of the rule that explains it."""

class Skipped:
    """A rule that could not be asked."""

    @property
    def rule(self) -> str: ...

    @property
    def needs(self) -> str: ...

class Evidence:
    """What was looked at."""

    @property
    def kind(self) -> str:
        """"files", "tables", "trace" or "live"."""

    @property
    def path(self) -> str: ...

    @property
    def sha256(self) -> str: ...

class CheckReport:
    """What check() found."""

    @property
    def evidence(self) -> list[Evidence]: ...

    @property
    def findings(self) -> list[Finding]: ...

    @property
    def known(self) -> list[Finding]: ...

    @property
    def explained(self) -> list[Explained]: ...

    @property
    def skipped(self) -> list[Skipped]: ...

    @property
    def passed(self) -> list[str]: ...

    def to_json(self) -> str: ...

    def to_sarif(self) -> str: ...

    def to_junit(self, fail_on: str) -> str: ...

    def to_baseline(self) -> str: ...

    def apply_baseline(self, path: str) -> list[str]: ...

    def text(self) -> str: ...

def check(spec: Spec | None, weights: str, against: Spec | None, against_weights: str, traces: Sequence[str], recipe: str, runtime: object | None, ids: Sequence[int], select: Sequence[str], ignore: Sequence[str], hash: str) -> CheckReport: ...

def rules() -> list[Rule]:
    """All rules of the checker, by id."""

def trust(spec: Spec, weights: str, recipe: str, to: int | None, trained: int | None, runtime: object | None, documents: Sequence[Sequence[int]], lead: Sequence[int], budget_s: float, seed: int) -> str: ...

def run_command(args: Sequence[str], out: int, err: int) -> int:
    """The command `locant` on two file descriptors; returns its exit status."""

def command_text(args: Sequence[str]) -> tuple[int, str, str]:
    """The command `locant`: exit status, what it printed, what it noted."""

def find_model(name: str) -> str:
    """
    A path that exists, a folder's only .gguf file, or the path of a bundled model.
    """
