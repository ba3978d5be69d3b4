#!/usr/bin/env python3
"""Writes the small tokenizers of this folder, and what Hugging Face's library makes of texts with them.

Run with tokenizers 0.23 (`pip install tokenizers==0.23.3`); the files are kept, so that tests need none of it. Each
kind of tokenizer.json is there that decoders of the Llama family come with, and a few of what else can be in one."""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SIZE = 420

# What the small vocabularies are trained on.
SENTENCES = [
    "An actor that owns a device answers the messages of others, one after the other.",
    "The scheduler gives each of them a share, and takes it back when the lease ends.",
    "Who asks for more memory than there is gets an error with the numbers, not a crash.",
    "In 2024 there were 1024 devices; by 2025 there may be 65536 of them, or 7.",
    "They'll say it's done, but we've seen that you're late and I'm not. We'd wait.",
    "Der Wähler prüft, ob die größte Fläche noch frei ist, und lässt sie sonst schließen.",
    "L'élève a déjà reçu ses clés, où qu'il fût né.",
    "Каждый узел отвечает за свои устройства и не ждёт других.",
    "今日は天気がいいから、散歩しましょう。明日は雨でしょう。",
    "我们把内存分给每一个进程，然后等它们归还。",
    "그들은 서로의 메시지를 기다리지 않는다.",
    "def f(x):\n    return x * 2  # twice\n\n\nfor i in range(10):\n\tprint(f(i))\n",
    "if (a != b) {\r\n  c += a->d[0];\r\n}\r\n",
]

# What they are asked.
TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n\n   \n",
    " \t \r\n \u00a0\u3000\u2028\u0085\x0b\x0c x",
    "a",
    "Hello, world!",
    " leading and trailing ",
    "two  spaces   three    four",
    "tabs\tand\t\ttabs\n  and lines\n\n\nand more   \n   \n end",
    "It's what they'll say: I'M HERE, WE'VE WON, you'd 'RE 'sS 'ſ 'Ll",
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 ½ ² Ⅷ ٣٤٥ १२३",
    "x=1;y=2;;;z!=3--->&&||::##[[]](){}<>/\\\"'`~@$%^*_",
    "def add(a, b):\n    return a + b\n\n\nclass A:\n\tpass\n",
    "Größe, Fläche, Straße, ÄÖÜ äöü ß ẞ",
    "L'élève déjà reçu où fût Œuvre",
    "Cafe\u0301 caf\u00e9 e\u0301\u0323 a\u0323\u0301 \u0344 \u1e9b\u0323 q\u0307\u0323",
    "ﬁ ﬀ ① ㎏ Ａ１ ½ \u212b \u2126 ｶﾞ \ufdfa",
    "Каждый узел отвечает, не ждёт.",
    "Ελληνικά ὀξεῖα σ ς Σ",
    "今日は、天気がいいですね。散歩しましょう！",
    "我们把内存分给每一个进程。龍龘",
    "한국어 문장 \u1112\u1161\u11ab\u1100\u116e\u11a8",
    "مرحبا بالعالم ١٢٣ عَرَبِيّ",
    "שלום עולם שָׁלוֹם",
    "नमस्ते दुनिया क्षत्रिय",
    "สวัสดีชาวโลก",
    "Việt Nam Tiếng Việt Tiê\u0301ng",
    "😀😃 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☕️ 1️⃣",
    "a😀b 😀 c\u200bd\u200de\ufefff\u00adg",
    "\U0001d54f\U0001d550 \U00010330\U00010331 \U000e0041",
    "null\x00byte \x01\x02\x1b[0m\x7f",
    "\ue000\uf8ff \U0010ffff \ufffd \uffff \u0378",
    "İstanbul ıI iİ Ǆ ǅ ǆ K Å ſ",
    "<s>begin</s> <unk> <0x41> <0xE4>",
    "<|begin_of_text|>a<|eot_id|> <|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "[INST] Who are you? [/INST] x [INST][INST]  [/INST]y",
    "  <left>  <left><right>  <right>  x<left>  \n<right>\n",
    "<word> a<word> <word>a <word>.<word> é<word> _<word>_ <word>",
    "New York, new york, NEW YORK and newyork New  York",
    "▁under▁score▁ ▁ ▁▁",
    "Ġbyte Ċlevel ĠĠ é Ã©",
    "https://example.org/a/b?c=d&e=%20#f user@example.org",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ababababababababababab abcabcabc bababa",
    "The actor's lease ends; the device's memory is given back to others, 65536 bytes of it.",
]

LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_2 = LLAMA_3.replace("{1,3}", "")


def train(tokenizer, special, size=SIZE, alphabet=()):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=list(alphabet),
                                  show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def add_bytes(tokenizer, first):
    """The same with a token for each byte behind the first ones, as SentencePiece has them."""
    file = json.loads(tokenizer.to_str())
    vocab = list(file["model"]["vocab"])
    vocab = vocab[:first] + [f"<0x{byte:02X}>" for byte in range(256)] + vocab[first:]
    file["model"]["vocab"] = {token: i for i, token in enumerate(vocab)}
    file["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(file))


def begins_with(token, tokenizer):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1",
                                         special_tokens=[(token, tokenizer.token_to_id(token))])


def of_pieces():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])


def make_llama_2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = add_bytes(train(tokenizer, ["<unk>", "<s>", "</s>"], 260), 3)
    tokenizer.post_processor = begins_with("<s>", tokenizer)
    tokenizer.decoder = of_pieces()
    return tokenizer


def make_mistral():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    tokenizer = add_bytes(train(tokenizer, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], 260), 5)
    tokenizer.add_special_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("<word>", single_word=True, normalized=False), "New York"])
    tokenizer.post_processor = begins_with("<s>", tokenizer)
    tokenizer.decoder = of_pieces()
    return tokenizer


def make_llama_3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA_3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(tokenizer, [], alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                    begins_with("<|begin_of_text|>", tokenizer)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_qwen_2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN_2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(tokenizer, [], alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_gpt_2():
    """As old files are: merges are texts, and the model says no type. Some bytes are no tokens."""
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    train(tokenizer, ["<|endoftext|>"], 300)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    file = json.loads(tokenizer.to_str())
    del file["model"]["type"], file["model"]["ignore_merges"]
    file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
    return file


def make_compatible():
    """Normalizers of all kinds, digits one by one, and words that begin with a space in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                                 normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace("ß", "ss")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True),
                                                       pre_tokenizers.Metaspace("▁", prepend_scheme="always")])
    train(tokenizer, ["<unk>", "<s>", "</s>"], 250)
    tokenizer.add_tokens([AddedToken("New York", normalized=True), AddedToken("<word>", single_word=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    return tokenizer


def make_split():
    """Ways to split, characters taken apart, and no decoder: tokens are joined with spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("e", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"[,.;]\s?"), "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[^\p{Latin}]+"), "contiguous"),
        pre_tokenizers.Split(Regex(r"[a-z]+(?=t)|(?<=a)b"), "isolated", invert=True),
        pre_tokenizers.Digits(False),
        pre_tokenizers.Whitespace()])
    train(tokenizer, ["<s>"], 330)
    return tokenizer


def ask(tokenizer, seed):
    drawn = random.Random(seed)
    size = tokenizer.get_vocab_size()
    tokens = [[drawn.randrange(size + 3) for _ in range(drawn.randrange(1, 24))] for _ in range(40)]
    # Bytes are where pieces of characters meet.
    some = [i for i in range(size) if (tokenizer.id_to_token(i) or "").startswith("<0x")] or list(range(min(256, size)))
    tokens += [[drawn.choice(some) for _ in range(drawn.randrange(1, 12))] for _ in range(40)]
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    tokens += [ids[:-1] for ids in encoded[:30]] + encoded
    return {
        "plain": encoded,
        "special": [tokenizer.encode(text).ids for text in TEXTS[:10]],
        "decoded": [[ids, tokenizer.decode(ids)] for ids in tokens],
        "size": size,
    }


def write(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


write(HERE / "texts.json", TEXTS)
MAKERS = [make_llama_2, make_mistral, make_llama_3, make_qwen_2, make_gpt_2, make_compatible, make_split]
for number, make in enumerate(MAKERS):
    name = make.__name__.removeprefix("make_")
    made = make()
    file = made if isinstance(made, dict) else json.loads(made.to_str())
    write(HERE / f"{name}.json", file)
    write(HERE / f"{name}.expected.json", ask(Tokenizer.from_str(json.dumps(file)), number))
