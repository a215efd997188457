"""What `make mutants` breaks in the modules of Part 4; ``scripts/mutations.py`` reads it."""

TESTS = {
    "allocations": "test_allocations.py",
    "backward": "test_backward.py",
    "costs": "test_costs.py",
    "data_parallel": "test_data_parallel.py",
    "dispatch": "test_dispatch.py",
    "distributed": "test_distributed.py",
    "distributed_rank": "test_distributed.py",
    "exchanges": "test_many_machines.py",
    "flash": "test_flash.py",
    "flash_checks": "test_flash.py",
    "grouped": "test_grouped.py",
    "grouped_checks": "test_grouped.py",
    "kv_sizes": "test_kv_sizes.py",
    "measured": "test_measured.py",
    "preallocated": "test_preallocated.py",
    "program_file": "test_program_file.py",
    "ring": "test_many_machines.py",
    "sharded_checkpoint": "test_sharded_checkpoint.py",
    "tensor_parallel": "test_many_machines.py",
}

# One test each, since the whole files start many processes.
BATCH = "test_data_parallel.py::test_the_lines_of_a_step_depend_on_its_number_alone"
DISTINCT = "test_data_parallel.py::test_all_lines_of_a_step_are_different"
DEALT = "test_data_parallel.py::test_the_lines_of_a_step_are_dealt_out_to_the_ranks"
ALONE = "test_data_parallel.py::test_a_single_process_is_rank_0_of_1"
LOSS = ("test_data_parallel.py::"
        "test_the_summed_loss_is_the_reference_s_and_padding_counts_for_nothing")
MEAN = "test_data_parallel.py::test_shares_of_the_mean_average_to_the_mean"
STEP = "test_data_parallel.py::test_a_step_begins_with_no_gradient_and_takes_its_own_rate"
LAST_BIT = "test_sharded_checkpoint.py::test_one_process_goes_on_to_the_last_bit"
NOTHING = "test_sharded_checkpoint.py::test_where_nothing_is_saved_a_run_begins_at_0_and_as_it_is"
CUT_OFF = "test_sharded_checkpoint.py::test_a_checkpoint_that_was_cut_off_is_not_taken"
NEWEST = "test_sharded_checkpoint.py::test_the_newest_is_the_one_of_most_steps_not_the_last_name"
LEFT = "test_sharded_checkpoint.py::test_what_a_dead_run_has_left_is_not_kept"
OVER = "test_sharded_checkpoint.py::test_a_checkpoint_is_never_written_over"
NUMBER = "test_distributed.py::test_the_number_of_processes_is_checked"
RESTARTS = "test_distributed.py::test_the_number_of_restarts_is_checked"
ANEW = "test_distributed.py::test_after_a_failure_all_ranks_begin_anew_as_often_as_they_may"
LAST = "test_distributed.py::test_after_the_last_restart_the_last_failure_is_told"

MUTATIONS = {
    "allocations.Allocations.__init__": [
        ("self.made = []", 'self.made = [("", (), 1)]'),
    ],
    "allocations.Allocations.bytes": [
        ("for *_, size in self.made", "for *_, size in self.made[1:]"),
    ],
    "allocations.Allocations.largest": [
        ("max((", "min(("),
        ("default=0", "default=1"),
    ],
    "backward.attention_backward": [
        (" / math.sqrt(q.shape[-1])", ""),
        ("g_weights = g @ v.mT", "g_weights = weights * (g @ v.mT)"),
        ("g_v = weights.mT @ g", "g_v = weights.mT @ abs(g)"),
        ("g_scores @ k, g_scores.mT @ q", "0 * q, g_scores.mT @ q"),
        ("g_scores.mT @ q, g_v", "k * 0, g_v"),
        ("check_cotangent(g, (*q.shape[:-1], v.shape[-1]))", "pass"),
    ],
    "backward.check_cotangent": [
        ("np.shape(g) != tuple(shape)", "np.ndim(g) != len(shape)"),
        ("np.ndim(g) == 0", "np.ndim(g) == 4"),
    ],
    "backward.linear_backward": [
        ("g_words.sum(axis=0)", "g_words.mean(axis=0)"),
        ("words.T @ g_words", "words.T @ g_words / len(words)"),
        ("g @ W.T", "g @ abs(W.T)"),
        ("check_cotangent(g, (*x.shape[:-1], W.shape[1]))", "pass"),
    ],
    "backward.merge": [
        ("x.swapaxes(1, 2).reshape", "x.reshape"),
    ],
    "backward.multi_head_attention": [
        ("/ math.sqrt(q.shape[-1]), keep", "/ math.sqrt(q.shape[-1])"),
        ("/ math.sqrt(q.shape[-1])", "/ math.sqrt(x.shape[-1])"),
        ('split(memory @ W["W_v"]', 'split(memory @ W["W_k"]'),
        (' + W["b_o"]', ""),
        ("q, k, v, weights, context)", "q, k, v, weights.round(3), context)"),
    ],
    "backward.multi_head_attention_backward": [
        ('"memory": by_k + by_v', '"memory": by_v'),
        ('"memory": by_k + by_v', '"memory": by_k'),
        ('"W_k": W_k', '"W_k": W_v'),
        ('"b_q": b_q', '"b_q": b_k'),
        ("split(g_context, q.shape[1])", "g_context.reshape(*q.shape[:3], -1)"),
    ],
    "backward.softmax_backward": [
        (" - average", ""),
        ("axis=-1", "axis=-2"),
        ("(weights * g).sum", "g.mean"),
        ("check_cotangent(g, weights.shape)", "pass"),
    ],
    "backward.split": [
        ("x.reshape(*x.shape[:2], n_heads, d_head).swapaxes(1, 2)",
         "x.reshape(x.shape[0], n_heads, x.shape[1], d_head)"),
    ],
    "costs.crossing": [
        ("/ seconds[:, None]", ""),
        ("max(a, 0) / b", "b / max(a, 1e-30)"),
        ("if b > 0 else math.inf", "if b else 0.0"),
        ("[n, n**2]", "[n**2, n]"),
    ],
    "costs.flops": [
        ("2 * n * n * d_model", "n * n * d_model"),
        ("6 * n", "3 * n"),
        ('"output": 2 * n * d_model**2', '"output": 2 * n * n * d_model'),
    ],
    "costs.held": [
        ("6 * n * d_model", "5 * n * d_model"),
        ("2 * n_heads * n * n", "n_heads * n * n"),
        ("2 * n_heads * n * n", "2 * n * n"),
    ],
    "costs.moved": [
        ("return seen.bytes", "return seen.bytes // 4"),
    ],
    "costs.new_pages": [
        ("return faults() - before", "return before"),
        ("return faults() - before", "return 0"),
        ("    program()\n", ""),
    ],
    "costs.traffic": [
        ("n_heads * n * n", "n * n"),
        ("2 * row + 3 * table", "2 * row + table"),
        ("4 * row + table", "2 * row + table"),
        ("+ 3 * square", "+ square"),
        ('"softmax": 2 * table', '"softmax": table'),
        ("2 * row + square}", "2 * row}"),
    ],
    "data_parallel.dealt": [
        ("[rank::p]", "[p::rank + 1]", DEALT),
        ("[rank::p]", "[::p]", DEALT),
        ("[rank::p]", ".chunk(p)[rank]", DEALT),
    ],
    "data_parallel.lines_of": [
        (".manual_seed(step)", ".manual_seed(0)", BATCH),
        ("generator=generator", "generator=None", BATCH),
        ("torch.randperm(len(texts), generator=generator)",
         "torch.randint(len(texts), (batch,), generator=generator)", DISTINCT),
        ("[:batch]", "[:8]", BATCH),
    ],
    "data_parallel.place": [
        ("return 0, 1", "return 1, 1", ALONE),
        ("dist.get_rank(), dist.get_world_size()", "0, dist.get_world_size()"),
    ],
    "data_parallel.together": [
        ("> 1", "> 9", "test_sharded_checkpoint.py::test_who_has_saved_finds_it_on_every_rank"),
    ],
    "data_parallel.share_of_mean": [
        ("p * total", "total", MEAN),
        ("count.clone()", "count", MEAN),
        ("if p > 1", "if p > 3", MEAN),
        ("/ everywhere", "/ count", MEAN),
    ],
    "data_parallel.summed_loss": [
        ('reduction="sum"', 'reduction="mean"', LOSS),
        ("ignore_index=PADDING, ", "ignore_index=0, ", LOSS),
        ("(wanted != PADDING).sum()", "torch.tensor(wanted.numel())", LOSS),
        ("wanted = lines[:, 1:]", "wanted = lines[:, :-1]", LOSS),
    ],
    "data_parallel.take_step": [
        ('group["lr"] = rate', "pass", STEP),
        ("optimiser.zero_grad()", "pass", STEP),
        ("optimiser.param_groups", "optimiser.param_groups[:1]", STEP),
    ],
    "dispatch.operations": [
        ("return seen.names", "return sorted(seen.names)"),
        ("return seen.names", "return seen.names[:2]"),
    ],
    "dispatch.peak_bytes": [
        ("return live.peak", "return live.now"),
        ("_LiveBytes(inputs)", "_LiveBytes(())"),
    ],
    "distributed.launch": [
        ("for rank in range(n_processes)]", "for rank in reversed(range(n_processes))]"),
        ("raise TimeoutError(", "raise RuntimeError("),
        ("if status is None", "if status == 0"),
        ("program, arguments, seconds)", "program, arguments[::-1], seconds)"),
        ('("n_processes", n_processes, 1)', '("n_processes", n_processes, 0)', NUMBER),
        ("not isinstance(number, int) or ", "", NUMBER),
        ('("max_restarts", max_restarts, 0)', '("max_restarts", max_restarts, -1)', RESTARTS),
        ("_command(folder, n_processes, max_restarts)", "_command(folder, n_processes, 0)", ANEW),
        ("_failure(folder, n_processes, max_restarts)", "_failure(folder, n_processes)", LAST),
    ],
    "distributed_rank.main": [
        ('getattr(torch, told["dtype"])', "torch.float32"),
        ('_say(error, folder / f"{rank}.error")', "pass"),
        ("rank=rank,", "rank=size - 1 - rank,"),
        ("os.environ['TORCHELASTIC_RESTART_COUNT']", "0", ANEW),
        ('(folder / f"{rank}.{end}").unlink(missing_ok=True)', "pass", LAST),
    ],
    "distributed_rank.moved": [
        ("value.detach().clone()",
         "value.detach()",
         "test_distributed.py::test_tensors_are_moved_wherever_they_stand_and_leave_their_history"),
        ("value.detach().clone()",
         "value.clone()",
         "test_distributed.py::test_tensors_are_moved_wherever_they_stand_and_leave_their_history"),
        ("{name: moved(part, device) for name, part in value.items()}",
         "value",
         "test_distributed.py::test_tensors_are_moved_wherever_they_stand_and_leave_their_history"),
        ("type(value)(moved(part, device) for part in value)",
         "value",
         "test_distributed.py::test_tensors_are_moved_wherever_they_stand_and_leave_their_history"),
    ],
    "distributed_rank.stored": [
        ("torch.load(path.with_suffix(\".part\"), weights_only=True)", "pass",
         "test_distributed.py::test_a_result_that_is_no_plain_value_is_refused"),
    ],
    "exchanges.Exchanges.__init__": [
        ("self.calls, self.bytes = Counter(), Counter()",
         "self.calls = Counter()\n        self.bytes = self.calls",
         "test_many_machines.py::test_exchanges_counts_calls_and_bytes_apart"),
    ],
    "exchanges.kind_of": [
        ("plain.startswith(",
         "plain.endswith(",
         "test_many_machines.py::test_operations_are_known_by_their_names"),
        ('.replace("_", ""))',
         ")",
         "test_many_machines.py::test_operations_are_known_by_their_names"),
        ("kind for kind in KINDS", '"send" for kind in KINDS'),
    ],
    "explore.cost_crossing": [
        ('"d_model": d_model, "n_heads": n_heads, "n": n}',
         '"d_model": 512, "n_heads": n_heads, "n": n}'),
        ('"n": n}', '"n": 256}'),
        ("8 <= n <= 2**17", "8 <= n"),
        ("8 <= n <= 2**17", "n <= 2**17"),
        ("if value not in there", "if value > max(there)"),
    ],
    "flash.TiledAttention.backward": [
        ("*ctx.options", "False, 5"),
        ("g_out, q, k, v, keep", "g_out, q, k, v, None"),
        ("*grad, None, None, None", "*grad[::-1], None, None, None"),
    ],
    "flash.TiledAttention.forward": [
        ("forward_tiles(q, k, v, keep, causal, tile)", "forward_tiles(q, k, v, keep, causal)"),
        ("forward_tiles(q, k, v, keep, causal, tile)",
         "forward_tiles(q, k, v, None, causal, tile)"),
        ("ctx.options = causal", "ctx.options = False"),
    ],
    "flash.backward_tiles": [
        ("lse = lse.masked_fill(lse == -math.inf, math.inf)", "pass"),
        ("(g_out * context)", "(0 * context)"),
        (".mT * scale", ".mT"),
        (" - mean[:, :, i]) * scale", " - mean[:, :, i])"),
        ("cut(keep, causal, i, j, q.device)", "cut(keep, False, i, j)"),
        ("if part is not None", "if False"),
        ("g_v[:, :, j] += ", "g_v[:, :, j] = "),
        ("g_q[:, :, i] += ", "g_q[:, :, i] = "),
        ("g_k[:, :, j] += ", "g_k[:, :, j] = "),
        ("return g_q, g_k", "return g_k, g_q"),
    ],
    "flash.cut": [
        ("size > 1", "size > 0"),
        ("not causal or rows != columns", "not causal"),
        ("not causal or rows != columns", "rows != columns"),
        (".tril()", ".tril(-1)"),
        (".tril()", ""),
        ("past if keep is None else keep & past", "past"),
        ("past if keep is None else keep & past", "past if keep is None else keep"),
    ],
    "flash.forward_tiles": [
        ("merge(old, new)", "new"),
        ("cut(keep, causal, i, j, q.device)", "cut(keep, False, i, j)"),
        ("cut(keep, causal, i, j, q.device)", "cut(None, causal, i, j)"),
        ("tile, causal):\n        part", "tile):\n        part"),
        ("old = context[:, :, i], lse[:, :, i]", "old = context[:, :, i], 0 * lse[:, :, i]"),
    ],
    "flash.merge": [
        ("top = top.masked_fill(top == -math.inf, 0)", "pass"),
        ("torch.maximum(lse_a, lse_b)", "torch.zeros_like(lse_a)"),
        ("torch.exp(lse_a - top)", "torch.ones_like(top)"),
        ("total.masked_fill(total == 0, 1)", "total"),
        ("context / total[..., None]", "context / 2"),
        ("(top + total.log())", "top"),
        (".masked_fill(empty, -math.inf)", ""),
    ],
    "flash.partial": [
        ("keep = checks.keep(keep, q, k)",
         "keep = keep if keep is None else torch.as_tensor(keep)"),
        ("/ math.sqrt(q.shape[-1])", ""),
        ("-math.inf).masked_fill(empty, 0)", "-math.inf)"),
        ("context = context.masked_fill(empty, 0)", "pass"),
        ("lse.masked_fill(empty, -math.inf)[..., 0]", "lse[..., 0]"),
        ("return torch.exp(scores - lse) @ v, lse[..., 0]",
         "return torch.exp(scores) @ v, lse[..., 0]"),
    ],
    "flash.tiled_attention": [
        ("keep = flash_checks.tiled(q, k, v, keep, causal, tile)", "pass"),
        ("apply(q, k, v, keep, causal, tile)", "apply(q, k, v, keep, False, tile)"),
        ("apply(q, k, v, keep, causal, tile)", "apply(q, k, v, keep, causal, 256)"),
    ],
    "flash.tiles": [
        ("rows.stop if causal else n_k", "n_k"),
        ("rows.stop if causal", "rows.start + 1 if i else 1 if causal"),
        ("rows.stop if causal", "rows.start if causal"),
        ("min(i + tile, n_q)", "i + tile"),
        ("min(j + tile, n_k)", "j + tile"),
    ],
    "flash_checks.tiled": [
        ("tile < 1", "tile < 0"),
        ("causal and sizes", "False and sizes"),
        ('causal and sizes["i"] != sizes["j"]', "causal"),
        ('"b h i d, b h j d, b h j e"', '"b h i d, c g j d, c g j e"'),
        ("return with_causal(keep, ambiguous, q, k)", "return keep"),
    ],
    "grouped.GroupedAttention.__init__": [
        ("grouped_checks.group(n_heads, n_kv_heads)", "pass"),
        ("n_heads, window, bias)", "n_heads, None, bias)"),
        ("nn.Linear(d_model, sum(self.widths), bias=bias)", "nn.Linear(d_model, sum(self.widths))"),
        ("n_kv_heads * (d_model // n_heads)", "n_kv_heads * d_model // n_kv_heads"),
    ],
    "grouped.GroupedAttention.project": [
        ("split_heads(q, self.n_heads)", "split_heads(q, self.n_heads).flip(1)"),
        ("q, k, v = self", "q, v, k = self"),
    ],
    "grouped.GroupedRotary.__init__": [
        ("2.0", "1.0"),
        ("n_heads, n_kv_heads, bias=False)", "n_heads, n_heads, bias=False)"),
    ],
    "grouped.folded_attention": [
        ("grouped_checks.shared(q, k, v), q.shape", "q.shape[1] // k.shape[1], q.shape"),
        ("keep = keep.reshape(batch, kv_heads, group * n_q, n_k)",
         "keep = keep.reshape(batch, kv_heads, group, n_q, "
         "n_k).transpose(2, 3).reshape(batch, kv_heads, group * n_q, n_k)"),
        ("q = q.reshape(batch, kv_heads, group * n_q, d)",
         "q = q.unflatten(1, (group, kv_heads)).transpose(1, "
         "2).reshape(batch, kv_heads, group * n_q, d)"),
        ("fused_attention(q, k, v, keep)", "fused_attention(q, k, v)"),
        ("return context.reshape(batch, n_heads, n_q, v.shape[-1])",
         "return context.unflatten(2, (group, n_q)).transpose(1, 2).flatten(1, 2)"),
    ],
    "grouped.grouped_attention": [
        ("grouped_checks.shared(q, k, v)", "pass"),
        ("return folded_attention(q, k, v, with_causal(keep, causal, q, k))",
         "return folded_attention(q, k, v)"),
        ("with_causal(keep, causal, q, k))", "keep)"),
        ("if n_q == 1", "if False"),
        ("is_causal=causal, ", ""),
        ("keep = with_causal(keep, causal, q, k)\n", "keep = with_causal(keep, False, q, k)\n"),
        ("context.masked_fill(empty, 0)", "context"),
    ],
    "grouped.regrouped": [
        ("copy.deepcopy(model)", "model"),
        ("(n_kv_heads, old.n_heads // n_kv_heads, d", "(old.n_heads // n_kv_heads, n_kv_heads, d"),
        ("torch.cat([q, k, v])", "torch.cat([q, v, k])"),
        (".train(model.training)", ".train()"),
        ('"gain": old.gain.detach()', '"gain": new.gain.detach()'),
    ],
    "grouped_checks.fits_room": [
        ("held + new > room", "new > room", "test_preallocated.py"),
        ("held + new > room", "held + new >= room", "test_preallocated.py"),
    ],
    "grouped_checks.group": [
        ("n_heads % n_kv_heads", "False"),
        ("return n_heads // n_kv_heads", "return n_heads"),
        ("if n_heads % n == 0", "if n_heads % n"),
    ],
    "grouped_checks.not_recorded": [
        ("torch.is_grad_enabled() and", "", "test_preallocated.py"),
        ("k.requires_grad or", "", "test_preallocated.py"),
        ("or v.requires_grad", "", "test_preallocated.py"),
    ],
    "grouped_checks.room": [
        ("room < 1", "room < 0", "test_preallocated.py"),
        ("return room", "return room + 1", "test_preallocated.py"),
    ],
    "grouped_checks.shared": [
        ("!= {4}", "== {5}"),
        ("or shapes[1][:3] != shapes[2][:3]", ""),
        ("shapes[0][0] != shapes[1][0]", "False"),
    ],
    "kv_sizes.bytes_per_token": [
        ("2 * config.kv_heads", "config.kv_heads"),
        ("config.kv_heads", "config.heads"),
        ("* width", "* 2"),
    ],
    "kv_sizes.cache_bytes": [
        ("min(tokens", "max(tokens"),
        ("config.layers - config.windowed", "config.layers"),
        ("bytes_per_token(config, width)", "bytes_per_token(config)"),
    ],
    "kv_sizes.outweighs": [
        ("* 1e9 * width", "* 1e9 * 2"),
        ("(weights - in_windows)", "weights"),
        ("if full else None", "if full else 0"),
        ("if weights <= cache", "if weights > cache"),
    ],
    "measured.check": [
        ("written != FORMAT", "False"),
        ("measured.keys() != KEYS", "False"),
        ("measured.keys() ^ KEYS", "KEYS - measured.keys()"),
        ("if isinstance(measured, dict) else None", ""),
    ],
    "measured.describe": [
        ('machine["gpu"] if', 'machine["processor"] if'),
        ("(machine['cores'] > 1)", "1"),
        (" if machine[name]]", "]"),
        (":g} GiB", ":.0f} GiB"),
        ("machine['threads']", "machine['cores']"),
    ],
    "measured.load": [
        ('measured["quick"] and not quick', 'measured["quick"]'),
        ("and not quick", "and quick"),
        ("    check(measured, path)\n", ""),
        ("path=OURS", "path=READERS"),
    ],
    "measured.programs": [("dict.fromkeys(", "sorted(")],
    "measured.series": [
        ('key=lambda row: row["n"]', 'key=lambda row: -row["n"]'),
        ('if row["program"] == program', ""),
        ("_fields[1:4]", "_fields[3:0:-1]"),
        ("or 'none'", ""),
    ],
    "measured.slope": [
        ("~np.isnan(y)", "np.isfinite(n)"),
        (" - np.log(n).mean()", ""),
        ("np.log(y) / (log_n @ log_n)", "np.log2(y) / (log_n @ log_n)"),
        ("len(set(n)) < 2", "len(n) < 2"),
        ("min(n.min(), y.min()) <= 0", "False"),
    ],
    "preallocated.PreallocatedCache.__init__": [
        ("super().__init__(window)", "super().__init__(None)"),
        ("grouped_checks.room(room)", "room"),
    ],
    "preallocated.PreallocatedCache.extend": [
        ("cache_checks.fits(self.held, k, v, positions)", "pass"),
        ("grouped_checks.not_recorded(k, v)", "pass"),
        ("grouped_checks.fits_room(self.room, held, count)", "pass"),
        ("self.end + count > self.room", "False"),
        ("self.end - held, self.end + count", "self.end, self.end + count"),
        ("narrow(axis, start, held + count)", "narrow(axis, start, held + count).clone()"),
        ("self.held = self.still_seen(*whole)", "self.held = tuple(whole)"),
    ],
    "preallocated.PreallocatedCache.still_seen": [
        ("if self.window is None", "if True"),
        (".any(dim=0)", ".all(dim=0)"),
        ("if len(seen) else positions.shape[-1]", "if len(seen) else 0"),
    ],
    "program_file.definition": [
        ("reversed(ast.parse(source).body)", "ast.parse(source).body"),
        ("min([node.lineno, *(mark.lineno for mark in node.decorator_list)])", "node.lineno"),
        ("inspect.unwrap(part)", "part"),
        (" or code.__module__ != thing.__module__", ""),
    ],
    "program_file.imports": [
        ("found.add(node.module)", "pass"),
        ("{alias.name for alias in node.names}", "{alias.asname for alias in node.names}"),
        ("ast.parse(source).body", "ast.walk(ast.parse(source))"),
    ],
    "program_file.names": [
        ('("LOAD_GLOBAL", "LOAD_NAME")', '("LOAD_GLOBAL",)'),
        ('("LOAD_GLOBAL", "LOAD_NAME")', '("LOAD_NAME",)'),
        ('found - {"__name__"}', "found"),
        ("codes += [part for part in code.co_consts if isinstance(part, CodeType)]", "pass"),
    ],
    "program_file.written": [
        (' or "<" in program.__qualname__', ""),
        ("*lines, ", ""),
    ],
    "ring.Hop.backward": [
        ("-ctx.by", "ctx.by"),
        ("ctx.by, *grads)", "ctx.by, *grads[::-1])"),
        ("*Hop.apply(-ctx.by, *grads)", "*pass_on([grad.contiguous() for grad in grads], -ctx.by)",
         "test_many_machines.py::test_a_hop_has_a_second_derivative"),
    ],
    "ring.Hop.forward": [
        ("v.contiguous()), by)", "v.contiguous()), -by)"),
        ("(k.contiguous(), v.contiguous())", "(k, v)"),
        ("pass_on((k.contiguous(), v.contiguous()), by)", "(k.clone(), v.clone())"),
    ],
    "ring.pass_on": [
        ("(rank + by) % p, (rank - by) % p", "(rank - by) % p, (rank + by) % p"),
        ("return arriving", "return tuple(tensors)"),
    ],
    "ring.ring_attention": [
        ("(rank - step) % p", "(rank + step) % p"),
        ("state is None", "state is not None or True"),
        ("if step < p - 1:", "if step < p - 2:"),
        ("return state[0]", "return new[0]"),
        ("visible(places[rank], places[source])", "visible(places[source], places[rank])"),
        ("if step < p - 1:", "if True:"),
    ],
    "sharded_checkpoint.load": [
        ('return state["step"]', "return 0", LAST_BIT),
        ("return 0", "return 1", NOTHING),
        ('optim_state_dict=state["optimiser"]', "optim_state_dict={}", LAST_BIT),
    ],
    "sharded_checkpoint.newest": [
        ("max(whole, key=lambda path: int(path.name[5:]), default=None)",
         "max(whole, default=None)", NEWEST),
        ("max(whole", "min(whole", NEWEST),
        ('"step-*"', '"*-*"', CUT_OFF),
        (", default=None", "", NOTHING),
    ],
    "sharded_checkpoint.save": [
        ("shutil.rmtree(part, ignore_errors=True)", "pass", LEFT),
        ("part.rename(whole)", "pass", LAST_BIT),
        ('"step": step}', '"step": step + 1}', LAST_BIT),
        ("checkpoint_id=part", "checkpoint_id=whole", OVER),
    ],
    "tensor_parallel.SeparateAttention.__init__": [
        ("checks.divisible(d_model, n_heads)",
         "d_model // n_heads",
         "test_many_machines.py::test_separate_attention_refuses_half_a_head"),
        ("checks.divisible(d_model, n_heads)",
         "2 * checks.divisible(d_model, n_heads)",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
    ],
    "tensor_parallel.SeparateAttention.forward": [
        ("causal)  #",
         "False)  #",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
        ("v, keep,",
         "v, None,",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
        ("(self.W_q, self.W_k, self.W_v)",
         "(self.W_k, self.W_q, self.W_v)",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
        ("self.W_o(merge_heads(context))",
         "merge_heads(context)",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
    ],
    "tensor_parallel.SeparateAttention.heads": [
        ("(-1, self.d_head)",
         "(self.d_head, -1)",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
        (".unflatten(-1, (-1, self.d_head)).transpose(1, 2)",
         ".reshape(len(side), -1, side.shape[1], self.d_head)",
         "test_many_machines.py::test_separate_attention_equals_the_reference_causal_and_padded"),
    ],
    "tensor_parallel.plan": [
        ("if joined", "if not joined"),
        ('"W_q", "W_k", "W_v", "up"', '"W_q", "W_k", "W_v"'),
        ('("W_q", "W_k", "W_v", "W_o")', '("W_q", "W_k", "W_v")'),
    ],
}
