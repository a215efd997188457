"""What `make mutants` breaks in the modules of Part 3; ``scripts/mutations.py`` reads it."""

TESTS = {
    "bert": "test_pretrained.py",
    "cache": "test_cache.py",
    "cache_checks": "test_cache.py",
    "char_model": "test_char_model.py",
    "corpus": "test_corpus.py",
    "head_data": "test_explore.py",
    "language_model": "test_language_model.py",
    "ngrams": "test_ngrams.py",
    "pretrained": "test_pretrained.py",
    "relative_positions": "test_positions.py",
    "tasks": "test_tasks.py",
    "training": "test_training.py",
    "transformer": "test_transformer.py",
}

MUTATIONS = {
    "bert.Block.__init__": [
        ("self.norm_1 = nn.LayerNorm(d_model, eps=1e-12)", "self.norm_1 = nn.LayerNorm(d_model)"),
        ("self.norm_2 = nn.LayerNorm(d_model, eps=1e-12)", "self.norm_2 = nn.LayerNorm(d_model)"),
        ("MultiHeadAttention(d_model, n_heads)", "MultiHeadAttention(d_model, n_heads // 2 or 1)"),
    ],
    "bert.Block.forward": [
        ("keep=keep, ", ""),
        ("self.norm_1(x + out)", "x + self.norm_1(out)"),
        ("F.gelu(self.wide(x))", 'F.gelu(self.wide(x), approximate="tanh")'),
        ("self.norm_2(x + out), weights", "self.norm_1(x + out), weights"),
        ("x + out), weights", "x + out), weights.mT"),
    ],
    "bert.Encoder.__init__": [
        ("self.norm = nn.LayerNorm(d_model, eps=1e-12)", "self.norm = nn.LayerNorm(d_model)"),
        ("range(n_layers)", "range(6)"),
        ("nn.Embedding(vocabulary, d_model)", "nn.Embedding(30522, d_model)"),
    ],
    "bert.Encoder.forward": [
        ("self.places.weight[:ids.shape[1]]", "self.places.weight[0]"),
        ("self.kinds.weight[0]", "self.kinds.weight[1]"),
        ("real[:, None, None]", "real[:, None, :, None]"),
        ("block(hidden[-1]", "block(hidden[0]"),
        ("torch.stack(maps, dim=1)", "torch.stack(maps[::-1], dim=1)"),
        ("[self.norm(x + self.kinds.weight[0])]", "[x + self.kinds.weight[0]]"),
    ],
    "bert.embedding": [
        ("hidden[:, -1]", "hidden[:, 0]"),
        ("(hidden[:, -1] * real)", "hidden[:, -1]"),
        ("F.normalize(mean, dim=-1)", "mean"),
    ],
    "bert.renamed": [
        ('("query", "key", "value")', '("key", "query", "value")'),
        ('("query", "key", "value")', '("query", "value", "key")'),
        ('f"encoder.layer.{n}."', 'f"encoder.layer.{5 - n}."'),
    ],
    "cache.Cache.__init__": [
        ("cache_checks.window(window), None", "None, None"),
        ("cache_checks.window(window)", "window"),
    ],
    "cache.Cache.extend": [
        ("cache_checks.fits(self.held, k, v, positions)", "pass"),
        ("(old_k, k)", "(k, old_k)"),
        ("(old_v, v)", "(v, old_v)"),
        ("(old_positions, positions)", "(positions, old_positions)"),
        ("return k, v, positions", "return self.held"),
        ("self.held = self.still_seen(k, v, positions)", "self.held = k, v, positions"),
    ],
    "cache.Cache.next_positions": [
        ("(self.held[2]) + 1 + new", "(self.held[2]) + new"),
        ("cache_checks.latest(self.held[2]) + 1", "len(self)"),
        ("if self.held is None", "if True"),
    ],
    "cache.Cache.still_seen": [
        ("if self.window is None", "if True"),
        (".any(dim=0)", ".all(dim=0)"),
        ("cache_checks.latest(positions)", "positions[..., -1:]"),
    ],
    "cache.CausalAttention.__init__": [
        ("cache_checks.window(window)", "window"),
        ("bias=bias", "bias=True"),
    ],
    "cache.CausalAttention.forward": [
        ("cache_checks.same_window(self, cache)", "pass"),
        ("cache_checks.positions(positions, *x.shape[:2])", "pass"),
        ("and self.window is None", ""),
        ("(Cache() if cache is None else cache)", "Cache()"),
        ("k, v, where = cache", "_, v, where = cache"),
        ("visible(positions, where, self.window)", "visible(positions, where)"),
        ("not plain and keep.all()", "not plain and keep.any()"),
        ("causal=plain", "causal=False"),
    ],
    "cache.CausalAttention.heads_at": [
        ("self.project(x)", "self.project(x)[::-1]"),
    ],
    "cache.visible": [
        ("keys >= 0", "keys >= -1"),
        ("keys <= queries", "keys < queries"),
        ("keys > queries - window", "keys >= queries - window"),
        ("keep if keep.ndim == 2 else keep[:, None]", "keep"),
    ],
    "cache_checks.fits": [
        ("k.shape[:-1] != v.shape[:-1]", "False"),
        ("positions(new, k.shape[0], k.shape[-2])", "pass"),
        ("old.dtype != given.dtype", "False"),
        ("(*old.shape[:2], old.shape[3]) != (*given.shape[:2], given.shape[3])", "False"),
        ("new.ndim != held[2].ndim", "False"),
        ("(new >= 0) & ", ""),
        ("new <= last", "new < last"),
    ],
    "cache_checks.latest": [
        ("positions.amax(dim=-1, keepdim=True)", "positions[..., -1:]"),
        ("if not positions.shape[-1]", "if False"),
        ("1), -1)", "1), 0)"),
    ],
    "cache_checks.positions": [
        ("((length,), (batch, length))", "(shape,)"),
        ("(batch, length))", "(1, length))"),
        ("positions.dtype == torch.bool or", ""),
        ("or positions.is_floating_point()", ""),
    ],
    "cache_checks.same_window": [
        ("cache.window != attention.window", "False"),
        ("cache is not None and", ""),
    ],
    "cache_checks.window": [
        ("window < 1", "window < 0"),
        ("return window", "return None"),
    ],
    "char_model.draw_loss": [
        ("corpus.draw(tokens, batch, length", "corpus.draw(tokens, length, batch"),
    ],
    "char_model.load": [
        ('!= about["sha256"]', '== ""'),
        ("return model.eval()", "return model"),
        ("path, path.with_suffix", 'path.with_suffix(".json"), path.with_suffix'),
    ],
    "char_model.save": [
        ("model.blocks[0].attention.n_heads", "1"),
        ("**facts}", "}"),
    ],
    "char_model.sha256": [
        ("sha256(Path", "sha1(Path"),
    ],
    "char_model.train": [
        ("torch.manual_seed(seed)", "torch.manual_seed(seed + 1)"),
        ("training.load(run, path)", "pass"),
        ("bits(model, passages)", "bits(model, passages[:1])"),
    ],
    "corpus.decode": [
        ("for token in tokens", "for token in tokens[1:]"),
    ],
    "corpus.draw": [
        ("len(tokens) - length + 1", "len(tokens) - length"),
        ("generator=generator", "generator=None"),
        ("torch.arange(length)", "2 * torch.arange(length) % length"),
    ],
    "corpus.encode": [
        ("if unknown:", "if False:"),
        ("sorted(unknown)", "sorted(places)"),
    ],
    "corpus.manual": [
        ('"\\n\\n".join(topics.values())', '"\\n\\n".join(topics)'),
    ],
    "corpus.rows": [
        ("for text in texts", "for text in texts[::-1]"),
    ],
    "corpus.split": [
        ("len(text) * (1 - share)", "len(text) * share"),
        ("len(train) - gram + 1", "len(train) - gram"),
        ("range(length - gram + 1)", "range(length - gram)"),
        ("range(length - gram + 1)", "range(1, length - gram + 1)"),
        ("len(passages) - len(new)", "len(new)"),
        ("len(rest) - length + 1, length", "len(rest) - length + 1, length + 1"),
    ],
    "explore.head_browser": [
        ("packed(tokens, weights, keys, scores, start)", "packed(tokens, weights, keys, scores)"),
        ("packed(tokens, weights, keys, scores, start)",
         "packed(tokens, weights, keys, None, start)"),
    ],
    "head_data.packed": [
        ("keys is None and n_q != n_k", "n_q != n_k"),
        ("not np.triu(weights, 1).any()", "not np.triu(weights, 2).any()"),
        ("n_q == n_k and not", "n_q != n_k and not"),
        ("np.tril_indices(n_q)", "np.triu_indices(n_q)"),
        ("1 <= size <= most", "0 <= size <= most + 1"),
        ("0 <= start[0] < layers", "start[0] < layers"),
        ("0 <= start[1] < heads", "0 <= start[1] <= heads"),
        ("isinstance(n, Integral)", "True"),
        ('_labels("keys", keys, "n_k", n_k)', '_labels("keys", keys, "n_q", n_q)'),
    ],
    "language_model.Block.__init__": [
        ("zeros_(self.attention.W_o.weight)", "ones_(self.down.weight)"),
        ("zeros_(self.down.weight)", "ones_(self.down.weight)"),
    ],
    "language_model.Block.forward": [
        ("self.attention(rms_norm(x)", "self.attention((x)"),
        (".square()", ""),
        ("return x + self", "return self"),
        ("positions, cache)", "None, cache)"),
    ],
    "language_model.LanguageModel.__init__": [
        ("zeros_(self.unembedding", "ones_(self.unembedding"),
    ],
    "language_model.LanguageModel.caches": [
        ("for block in", "for block in 2 *"),
    ],
    "language_model.LanguageModel.forward": [
        ("self.unembedding(rms_norm(x))", "self.unembedding(x)"),
        ("rms_norm(self.embedding(tokens))", "self.embedding(tokens)"),
        ("x = block(x, positions, cache)", "x = block(x, None, cache)"),
    ],
    "language_model.RotaryAttention.__init__": [
        ("2.0", "1.0"),
    ],
    "language_model.RotaryAttention.heads_at": [
        ("for side in (q, k))", "for side in (k, q))"),
        ("self.gain * q, k, v", "q, k, v"),
        ("rotate(rms_norm(side), cos, sin)", "rotate(side, cos, sin)"),
        (".double()", ".float()"),
    ],
    "language_model.bits": [
        ("* len(part)", "* 64"),
        ("/ math.log(2)", ""),
    ],
    "language_model.next_token_loss": [
        ("tokens[:, 1:]", "tokens[:, :-1]"),
    ],
    "language_model.optimisers": [
        ("if p.ndim == 2", "if p.ndim >= 2"),
        ("lr=adamw_lr", "lr=muon_lr"),
    ],
    "language_model.rms_norm": [
        ("x.shape[-1:]", "x.shape[-2:]"),
    ],
    "language_model.write": [
        ("logits / temperature", "logits * temperature"),
        ("temperature == 0", "temperature < 1"),
        ("unread = drawn.to(tokens)", "unread = tokens[:, :1]"),
        ("if temperature < 0", "if False"),
    ],
    "ngrams.NGrams.__init__": [
        ("len(text) - k + 1", "len(text) - k"),
        ("[gram[:-1]] += 1", "[gram[:-1]] += count"),
        ("[gram[:-1]] += count", "[gram[1:]] += count"),
    ],
    "ngrams.NGrams.bits": [
        ("range(1, len(passage))", "range(len(passage))"),
        ("math.log2(chance)", "math.log(chance)"),
        ("total / asked", "total / len(passages)"),
    ],
    "ngrams.NGrams.chances": [
        ("count + kinds * result[-1]", "count + result[-1]"),
        ("[1 / self.characters]", "[1 / (self.characters + 1)]"),
        ("if k <= len(before) else None", "if True else None"),
        ("result.append(result[-1])", "result.append(0.0)"),
    ],
    "ngrams.SoftLookup.__init__": [
        ("codes[span:]", "codes[span - 1:-1]"),
    ],
    "ngrams.SoftLookup.bits": [
        ("(1 - hedge) * chance", "chance"),
        ("np.exp(beta * np", "np.exp(-beta * np"),
        ("range(self.span, len(passage))", "range(self.span + 1, len(passage))"),
        ("in places[::step]:", "in places[step - 1::step]:"),
    ],
    "ngrams.SoftLookup.votes": [
        ("np.uint8(n + 1)", "np.uint8(1)"),
        ("before[-self.span:]", "before[:self.span]"),
    ],
    "positions.check_angles": [
        ("if sin.shape != cos.shape:", "if False:"),
        ("2 * shape[-1] > x.shape[-1]", "shape[-1] > x.shape[-1]"),
        ("and shape[0] != 1:", "and False:"),
        ("have not in (1, want)", "have not in (1, have)"),
        ("shape[-2::-1]", "shape[::-1]"),
        (") or len(shape) > len(x.shape):", "):"),
    ],
    "positions.rotary": [
        ("-2 * n / d", "-n / d"),
        ("dtype=torch.float64, device", "dtype=torch.float32, device"),
        ("if d % 2:", "if False:"),
        ("else torch.float32", "else torch.float64"),
        ("angle.cos().to(dtype), angle.sin().to(dtype)",
         "angle.sin().to(dtype), angle.cos().to(dtype)"),
        (", device=positions.device", ""),
    ],
    "positions.rotate": [
        ("a * cos - b * sin", "a * cos + b * sin"),
        ("((half, 2), -1) if interleaved", "((half, 2), -1) if not interleaved"),
        ("check_angles(x, cos, sin)", "pass"),
        ("cos.to(x), sin.to(x)", "cos, sin"),
        ("((2, half), -2)", "((2, half), -1)"),
        ("x[..., 2 * half:]), dim", "0 * x[..., 2 * half:]), dim"),
        ("a * cos - b * sin", "a * cos + b * sin", "test_onnx_cases.py"),
        ("((half, 2), -1) if interleaved", "((2, half), -2) if interleaved", "test_onnx_cases.py"),
    ],
    "positions.sinusoidal": [
        ("(sin, cos)", "(cos, sin)"),
        ("dim=-1).flatten(-2)", "dim=-2).flatten(-2)"),
        ("rotary(positions, e, base)", "rotary(positions, e)"),
    ],
    "pretrained.find": [
        ("if path.is_file():", "if True:"),
        ("revision=REVISION", "revision=None"),
        ("token=False", "token=None"),
        ("except Exception as error", "except OSError as error"),
        ("return path\n", "pass\n"),
    ],
    "pretrained.load_encoder": [
        ("renamed(load_file())", "encoder.state_dict()"),
    ],
    "pretrained.load_file": [
        ("find(name) if path is None else path", "find(name)"),
        ("read(find(name) if path is None else path, name)",
         "(find(name) if path is None else path).read_bytes()"),
    ],
    "pretrained.read": [
        ("data.startswith(PICKLES)", "False"),
        ("len(data) != size", "False"),
        ("!= digest", "is None"),
        ('if len(data) < size else ""', 'if len(data) > size else ""'),
        ("if not path.is_file()", "if not path.exists()"),
    ],
    "pretrained.tokenise": [
        ("coded]) == 1", "coded]) == 0"),
        ("attention_mask, strict=True) if mask]", "attention_mask, strict=True)]"),
        ("if isinstance(sentences, str):", "if False:"),
        ("if not len(sentences):", "if False:"),
        ("one.ids for one in coded", "one.type_ids for one in coded"),
    ],
    "relative_positions.relative_scores": [
        ("+ reach  # (i, j)", "+ reach - 1"),
        (".clamp(-reach, reach)", ".clamp(-reach, 0)"),
        ("if even:", "if False:"),
        ("torch.as_tensor(offsets)", "-torch.as_tensor(offsets)"),
    ],
    "relative_positions.relative_shift": [
        ("(1, 0)", "(0, 1)"),
        ("[..., n_q:]", "[..., :-n_q]"),
        ("n_distances + 1 - n_q", "n_distances - n_q"),
    ],
    "relative_positions.transformer_xl_scores": [
        ("(q + u) @ k.mT", "q @ k.mT"),
        ("(q + v) @ r.mT", "(q + u) @ r.mT"),
        ("relative_shift((q + v) @ r.mT)", "((q + v) @ r.mT)[..., :k.shape[-2]]"),
    ],
    "tasks.draw_dates": [
        ("len(FORMS)", "len(FORMS) - 1"),
        ("len(days)", "1"),
        ("day.isoformat() for", "str(day)[::-1] for"),
    ],
    "tasks.split_days": [
        ("(1900, 1, 1)", "(1900, 1, 2)"),
        ("last + 1", "last"),
        ("dealt[:n_test]", "dealt[n_test:]"),
        (".permutation(", ".choice("),
        ("not 0 < n_test < len(days)", "False"),
    ],
    "tasks.to_texts": [
        ("ALPHABET[number]", "ALPHABET[-number]"),
    ],
    "tasks.to_tokens": [
        ("if strange", "if False"),
        ("text.ljust", "text.rjust"),
        ("len(text) for", "len(text) + 1 for"),
    ],
    "tasks.write_date": [
        ("(11, 12, 13)", "(11, 12)"),
        ("day.month - 1], W", "day.month - 2], W"),
        ("day.weekday()", "day.weekday() - 1"),
        ("'th'", "'st'"),
        ("ROMAN[day.month - 1]", "ROMAN[day.day % 12]"),
        ("{day.month:02}", "{day.month}"),
    ],
    "training.linear_decay": [
        ("1 - step / steps", "1 - (step + 1) / steps"),
        ("1 - step / steps", "1.0"),
    ],
    "training.load": [
        ("weights_only=True", "weights_only=False"),
        ('run.generator.set_state(state["generator"])', "pass"),
        ("optimiser.load_state_dict(saved)", "pass"),
        ('("optimisers", state["kinds"], _kinds(run))', '("optimisers", 1, 1)'),
        ('("steps", state["steps"], run.steps)', '("steps", 1, 1)'),
        ('state["step"], state["seconds"]', 'state["step"], 0.0'),
        ('state["history"]', "[]"),
    ],
    "training.measured": [
        ("model.eval()", "pass"),
        ("torch.no_grad()", "torch.enable_grad()"),
    ],
    "training.new_run": [
        ("manual_seed(seed)", "manual_seed(seed + 1)", "test_char_model.py"),
        ("list(optimisers)", "list(optimisers)[:1]"),
    ],
    "training.one_step": [
        ("run.model.train()", "run.model.eval()"),
        ("zero_grad(set_to_none=True)", "state.clear()"),
        ('_finite(loss, "loss", run)', "pass"),
        ("run.model.parameters(), clip", "run.model.parameters(), 99.0"),
        ("_finite(nn.utils", "print(nn.utils"),
        ('group["initial_lr"] * share', 'group["lr"] * share'),
    ],
    "training.save": [
        ("os.replace(unfinished, path)", "path.write_bytes(unfinished.read_bytes())"),
        ("unfinished.unlink(missing_ok=True)", "pass"),
        ("os.fsync(file.fileno())", "pass"),
        ("unfinished = path.with_name", "unfinished = path or path.with_name"),
    ],
    "training.train": [
        ("run.step + 1, run.seconds", "run.step + 2, run.seconds"),
        ("decay(run.step, run.steps), clip", "decay(run.step, run.steps), 1.0"),
        ("every and run.step % every == 0", "every and run.step % every == 1"),
        ("run.steps if until is None else until", "run.steps"),
        ("run.seconds + time", "time"),
        ("                    save(run, path)", "                    pass"),
    ],
    "transformer.DecoderLayer.__init__": [
        ("Residual(d_model, norm_first)", "Residual(d_model)"),
    ],
    "transformer.DecoderLayer.forward": [
        ("causal=True", "causal=False"),
        ("memory, keep=keep", "memory"),
        ("self.residuals[1](", "self.residuals[0]("),
        ("self.cross_attention(x, memory", "self.self_attention(x, memory"),
    ],
    "transformer.EncoderDecoder.__init__": [
        ("range(n_decoder)", "range(n_encoder)"),
        ("range(n_encoder)", "range(n_decoder)"),
    ],
    "transformer.EncoderDecoder.decode": [
        ("memory, keep)", "memory)"),
        ("self.norms[1](x)", "x"),
    ],
    "transformer.EncoderDecoder.embed": [
        ("x + sinusoidal", "x - sinusoidal"),
        ("torch.arange(tokens.shape[1]", "torch.zeros(tokens.shape[1]"),
    ],
    "transformer.EncoderDecoder.encode": [
        ("layer(x, keep)", "layer(x)"),
        ("self.norms[0](x)", "self.norms[1](x)"),
    ],
    "transformer.EncoderDecoder.forward": [
        ("self.encode(source, keep)", "self.encode(source)"),
        ("keep), keep)", "keep))"),
    ],
    "transformer.EncoderLayer.__init__": [
        ("Residual(d_model, norm_first)", "Residual(d_model)"),
    ],
    "transformer.EncoderLayer.forward": [
        ("x, keep=keep", "x"),
        ("keep=keep", "keep=keep, causal=True"),
        ("self.residuals[1](x", "self.residuals[0](x"),
    ],
    "transformer.FeedForward.__init__": [
        ("nn.Linear(d_model, d_hidden)", "nn.Linear(d_model, d_hidden, bias=False)"),
    ],
    "transformer.FeedForward.forward": [
        ("F.relu(self.up(x))", "self.up(x)"),
        ("F.relu", "F.gelu"),
    ],
    "transformer.Residual.__init__": [
        ("norm_first=True", "norm_first=False"),
    ],
    "transformer.Residual.forward": [
        ("x + sublayer(self.norm(x))", "sublayer(self.norm(x))"),
        ("self.norm(x + sublayer(x))", "self.norm(sublayer(x))"),
        ("if self.norm_first", "if not self.norm_first"),
    ],
    "transformer.translate": [
        ("range(steps)", "range(steps - 1)"),
        ("[:, -1]", "[:, 0]"),
        ("encode(source, keep)", "encode(source)"),
        ("memory, keep)", "memory)"),
        ("written[:, 1:]", "written[:, :-1]"),
        (".argmax(", ".argmin("),
    ],
}
