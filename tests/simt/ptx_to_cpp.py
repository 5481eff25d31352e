#!/usr/bin/env python3
"""ptx2cpp.py in.ptx > out.cpp - turns the PTX that nvcc produced into C++ that runs on the simt runtime,
so that nvcc's own code generation is executed too. Unknown instructions stop the translation."""
import re, sys
BITS = {'pred': 'bool', 'b8': 'u8', 'b16': 'u16', 'b32': 'u32', 'b64': 'u64', 'u16': 'u16', 'u32': 'u32', 'u64': 'u64',
        's16': 'u16', 's32': 'u32', 's64': 'u64', 'f32': 'u32', 'f64': 'u64', 'u8': 'u8', 's8': 'u8'}
VAL = {'s8': 'i8', 's16': 'i16', 's32': 'i32', 's64': 'i64', 'f32': 'float', 'f64': 'double'}
val = lambda t: VAL.get(t, BITS[t])
WIDE = {'u16': 'u32', 's16': 's32', 'u32': 'u64', 's32': 's64'}
SPECIAL = {'%tid': 'threadIdx', '%ctaid': 'blockIdx', '%ntid': 'blockDim', '%nctaid': 'gridDim'}
MATH = {'ex2': 'std::exp2', 'lg2': 'std::log2', 'sqrt': 'std::sqrt', 'sin': 'std::sin', 'cos': 'std::cos', 'tanh': 'std::tanh', 'abs': 'std::abs',
        'rsqrt': '1.0f/std::sqrt', 'rcp': '1.0f/'}
BIN = {'add': '+', 'sub': '-', 'and': '&', 'or': '|', 'xor': '^', 'div': '/', 'rem': '%', 'shl': '<<', 'shr': '>>'}
CMP = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}

class Fn:
    def __init__(s, name): s.name, s.params, s.regs, s.body, s.poff = name, {}, {}, [], 0
def reg(r): return r.replace('%', '_').replace('.', '_').replace('$', '_')

def operand(o, t, syms):
    """C++ expression of PTX type t for a source operand."""
    o = o.strip()
    if m := re.fullmatch(r'0[fF]([0-9a-fA-F]{8})', o): e, src = f'0x{m[1]}u', 'u32'
    elif m := re.fullmatch(r'0[dD]([0-9a-fA-F]{16})', o): e, src = f'0x{m[1]}ull', 'u64'
    elif re.fullmatch(r'-?(0x[0-9a-fA-F]+|\d+)U?', o): return f'static_cast<{val(t)}>({o.rstrip("U")}ll)' if t != 'pred' else o
    elif m := re.fullmatch(r'(%\w+)\.([xyz])', o): return f'{val(t)}({SPECIAL[m[1]]}.{m[2]})'
    elif o == '%laneid': return 'u32(lane_id())'
    elif o.startswith('%'): return reg(o) if t == 'pred' else f'rd<{val(t)}>({reg(o)})'
    elif o in syms: return f'{val(t)}({syms[o]})'
    else: raise SystemExit(f'operand {o}')
    return f'rd<{val(t)}>({src}({e}))'
def store(d, t, e): return f'{reg(d)} = {e};' if t == 'pred' else f'wr({reg(d)}, {val(t)}({e}));'

def address(a, space, fn, syms):
    m = re.fullmatch(r'\[([^\]+]+)(?:\+(-?\w+))?\]', a.replace(' ', '')); base, off = m[1], m[2] or '0'
    if space == 'param': return f'(P + {fn.params[base]} + {off})'
    if space == 'shared': b = operand(base, 'u32' if base in syms else 'u32', syms); return f'SH({b} + u32({off}))'
    return f'GL({operand(base, "u64", syms)} + i64({off}))'

def split(s):
    out, d, cur = [], 0, ''
    for c in s:
        d += c in '{['; d -= c in '}]'
        if c == ',' and d == 0: out.append(cur.strip()); cur = ''
        else: cur += c
    return out + [cur.strip()] if cur.strip() else out

def translate(op, a, fn, syms):
    p = op.split('.'); n, t = p[0], p[-1]
    O = lambda i, ty=None: operand(a[i], ty or t, syms)
    vec = lambda s: [x.strip() for x in s.strip('{} ').split(',')]
    if n in ('ret', 'exit'): return 'return;'
    if n == 'bra': return f'goto {a[0].replace("$", "_")};'
    if n in ('bar', 'barrier'):
        return f'simt::ballot(simt::op::syncwarp, {O(0, "u32")}, false, PC());' if 'warp' in p else 'simt::block_barrier(PC());'
    if n in ('membar', 'fence'): return ';'
    if n in ('ld', 'ldu'):
        sp = next((x for x in p if x in ('param', 'global', 'shared', 'const', 'local')), 'global'); ad = address(a[1], sp, fn, syms)
        return ' '.join(f'wr({reg(d)}, {val(t)}(ldm<{val(t)}>({ad}, {i})));' for i, d in enumerate(vec(a[0])))
    if n == 'st':
        sp = next((x for x in p if x in ('global', 'shared', 'local')), 'global'); ad = address(a[0], sp, fn, syms)
        return ' '.join(f'stm<{val(t)}>({ad}, {i}, {operand(s, t, syms)});' for i, s in enumerate(vec(a[1])))
    if n in ('atom', 'red'):
        k = 1 if n == 'atom' else 0; sp = 'shared' if 'shared' in p else 'global'
        if 'add' in p: e = f'simt::atomic_add(reinterpret_cast<{"int" if t == "s32" else val(t)}*>({address(a[k], sp, fn, syms)}), {O(k + 1)})'
        else: raise SystemExit(op)
        return store(a[0], t, e) if n == 'atom' else e + ';'
    if n == 'shfl':
        d, _, pr = a[0].partition('|'); mode = {'bfly': 'bxor', 'up': 'up', 'down': 'down', 'idx': 'idx'}[p[2]]
        c = f'SF s = shfl(simt::op::{mode}, {O(1, "u32")}, {O(2, "u32")}, {O(3, "u32")}, {O(4, "u32")}, PC());'
        return f'{{ {c} {reg(d)} = s.v; {reg(pr) + " = s.p;" if pr else ""} }}'
    if n == 'cvta': return store(a[0], t, O(1)) if 'global' in p else store(a[0], t, f'reinterpret_cast<u64>(SH(u32({O(1)})))')
    if n == 'mov':
        if a[0].startswith('{'):
            d = vec(a[0]); w = int(t[1:]) // len(d)
            return ' '.join(f'{reg(x)} = u{w}({O(1)} >> {w * i});' for i, x in enumerate(d) if x != '_')
        if a[1].startswith('{'):
            x = vec(a[1]); w = int(t[1:]) // len(x)
            return f'{reg(a[0])} = ' + ' | '.join(f'(u{t[1:]}({operand(y, f"b{w}", syms)}) << {w * i})' for i, y in enumerate(x)) + ';'
        return store(a[0], t, O(1))
    if n == 'cvt':
        src = p[-1]; dst = p[-2]
        if src == 'bf16': return store(a[0], dst, f'bf16_to_f({reg(a[1])})')
        if dst == 'bf16': return f'{reg(a[0])} = f_to_bf16({operand(a[1], src, syms)});'
        e = operand(a[1], src, syms)
        if dst[0] != 'f' and src[0] == 'f': e = {'rni': 'std::nearbyint', 'rzi': 'std::trunc', 'rmi': 'std::floor', 'rpi': 'std::ceil'}[p[1]] + f'({e})'
        return store(a[0], dst, e)
    if n == 'setp': return f'{reg(a[0])} = {O(1)} {CMP[p[1].rstrip("u") if p[1] not in CMP else p[1]]} {O(2)};' if len(p) == 3 else sys.exit(op)
    if n == 'selp': return store(a[0], t, f'{operand(a[3], "pred", syms)} ? {O(1)} : {O(2)}')
    if n in ('mul', 'mad', 'fma'):
        if 'wide' in p: wt = WIDE[t]; e, rt = f'{val(wt)}({O(1)}) * {val(wt)}({O(2)})', wt
        elif 'hi' in p: e, rt = f'{val(t)}(({val(WIDE[t])}({O(1)}) * {O(2)}) >> 32)', t
        elif t[0] == 's': e, rt = f'u{t[1:]}({O(1)}) * u{t[1:]}({O(2)})', t
        else: e, rt = f'{O(1)} * {O(2)}', t
        if n == 'fma': e = f'std::fma({O(1)}, {O(2)}, {O(3)})'
        if n == 'mad': e = f'{e} + {operand(a[3], rt if rt[0] != "s" else "u" + rt[1:], syms)}'
        return store(a[0], rt, e)
    if n in ('shl', 'shr'): w = t[1:]; return store(a[0], t, f'shift<{val(t)}>({O(1)}, {O(2, "u32")}, {str(n == "shl").lower()})')
    if n in BIN:
        f = t if t[0] != 's' or n in ('div', 'rem') else 'u' + t[1:]
        return store(a[0], f, f'{operand(a[1], f, syms)} {BIN[n]} {operand(a[2], f, syms)}')
    if n in ('min', 'max'): return store(a[0], t, (f'std::f{n}' if t[0] == 'f' else f'std::{n}<{val(t)}>') + f'({O(1)}, {O(2)})')
    if n == 'not': return store(a[0], t, f'!{O(1)}' if t == 'pred' else f'~{O(1)}')
    if n == 'neg': return store(a[0], t, f'-{O(1)}')
    if n in MATH: return store(a[0], t, f'{MATH[n]}({O(1)})')
    raise SystemExit(f'unsupported: {op} {a}')

text = re.sub(r'//.*', '', open(sys.argv[1]).read())
print('#include "tests/simt/ptx_runtime.h"')
gsyms, gstatic = {}, 0
for m in re.finditer(r'^(?:\.visible |\.weak )?\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]', text, re.M):   # shared by several kernels
    gstatic = -(-gstatic // int(m[1])) * int(m[1]); gsyms[m[2]] = f'{gstatic}'; gstatic += int(m[3])
for m in re.finditer(r'^\s*\.extern\s+\.shared[^;]*?(\w+)\[\]', text, re.M): gsyms[m[1]] = 'DYN'
for m in re.finditer(r'\.entry\s+(\w+)\s*\((.*?)\)(.*?)\{(.*?)\n\}', text, re.S):
    fn = Fn(m[1]); syms = dict(gsyms); static = gstatic; code = []
    for q in re.finditer(r'\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\b[^,]*?\s)?(\w+)(?:\[(\d+)\])?(?=\s*(?:,|$))', m[2]):
        sz = {'u8': 1, 'u16': 2, 'u32': 4, 'u64': 8, 'f32': 4, 'f64': 8, 's32': 4, 'b8': 1}[q[1]]; fn.poff = -(-fn.poff // sz) * sz
        fn.params[q[2]] = fn.poff; fn.poff += sz * int(q[3] or 1)
    for st in re.split(r';|(?<=:)\s*\n', m[4]):
        st = ' '.join(st.split()); st = st.lstrip('{} ') if not st.endswith(':') else st
        if not st or st.startswith('.pragma'): continue
        if st.endswith(':'): code.append(st.replace('$', '_') + ' ;'); continue
        if q := re.match(r'\.reg \.(\w+) (.*)', st):
            for r in q[2].split(','):
                b = re.fullmatch(r'\s*(%?\w+)(?:<(\d+)>)?\s*', r)
                for x in ([f'{b[1]}{i}' for i in range(int(b[2]))] if b[2] else [b[1]]): fn.regs[x] = BITS[q[1]]
            continue
        if q := re.match(r'\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]', st):
            static = -(-static // int(q[1])) * int(q[1]); syms[q[2]] = f'{static}'; static += int(q[3]); continue
        guard = ''
        if q := re.match(r'@(!?)(%\w+) (.*)', st): guard, st = f'if ({q[1]}{reg(q[2])}) ', q[3]
        op, _, rest = st.partition(' ')
        code.append(f'{guard}{{ {translate(op, split(rest), fn, syms)} }}')
    print(f'static void f_{fn.name}([[maybe_unused]] const unsigned char* P) {{\n  static const char tag = 0; char* const S = {f"static_cast<char*>(simt::static_shared(&tag, {static}))" if static else "nullptr"}; (void)S; (void)tag;')
    for r, ty in fn.regs.items(): print(f'  [[maybe_unused]] {ty} {reg(r)}{{}};')
    print('\n'.join('  ' + c for c in code) + f'\n}}\nstatic simt::ptx_entry e_{fn.name}("{fn.name}", f_{fn.name});')
