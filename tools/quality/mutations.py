"""Small changes of a program: which ones there are, and how one replaces the original in a running process."""

import ast
import copy
import functools
import gc
import sys
import types
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

FIELDS = ["id", "file:line", "function", "operator", "before", "after"]


def _pairs(text):
    return {a: b.split() for a, b in (pair.split(":") for pair in text.split(", "))}


COMPARE = _pairs(
    "Lt:LtE GtE, LtE:Lt Gt, Gt:GtE LtE, GtE:Gt Lt, Eq:NotEq, NotEq:Eq, Is:IsNot, IsNot:Is, "
    "In:NotIn, NotIn:In"
)
ARITHMETIC = _pairs(
    "Add:Sub, Sub:Add, Mult:Div, Div:Mult, FloorDiv:Div, Mod:FloorDiv, Pow:Mult, LShift:RShift, "
    "RShift:LShift, BitOr:BitAnd, BitAnd:BitOr"
)
SWAP = _pairs(
    "min:max, max:min, minimum:maximum, maximum:minimum, floor:ceil, ceil:floor, any:all, all:any, "
    "log:log1p, log1p:log, exp:expm1, expm1:exp, argmin:argmax, argmax:argmin"
)
UNWRAP = "sqrt isqrt abs ceil floor rint round exp log sum nextafter sorted unique".split()


def _called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _of_call(call):
    """(operator, replacement) for a call: another function, none at all, an argument less."""
    name, func = _called(call), copy.copy(call.func)
    for other in SWAP.get(name, ()):
        setattr(func, "attr" if hasattr(func, "attr") else "id", other)
        yield "function swapped", ast.Call(func, call.args, call.keywords)
    if name in UNWRAP and call.args:
        yield "call dropped", call.args[0]
    if len(call.args) > 1:
        yield "argument dropped", ast.Call(call.func, call.args[:-1], call.keywords)
    for i in [i for i, given in enumerate(call.keywords) if given.arg != "strict"]:
        keywords = call.keywords[:i] + call.keywords[i + 1 :]
        yield "argument dropped", ast.Call(call.func, call.args, keywords)


def changes(node):
    """(operator, replacement) for each small change of one node; None takes a statement away."""
    match node:
        case ast.Compare(left, [op, *ops], comparators):
            for kind in COMPARE[type(op).__name__]:
                new = ast.Compare(left, [getattr(ast, kind)(), *ops], comparators)
                yield "comparison", new
        case ast.BinOp(left, op, right):
            for kind in ARITHMETIC.get(type(op).__name__, ()):
                yield "arithmetic", ast.BinOp(left, getattr(ast, kind)(), right)
            yield "operand dropped", left
            if not isinstance(op, (ast.Pow, ast.LShift, ast.RShift)):
                yield "operand dropped", right
        case ast.UnaryOp(_, operand) if not isinstance(operand, ast.Constant):
            yield "sign dropped", operand
        case ast.BoolOp(op, values):
            yield "and or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant(bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int(value)):
            yield "constant", ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield "constant", ast.Constant(2 * value or 1.0)
        case ast.If() | ast.While() | ast.IfExp():
            new = copy.copy(node)
            new.test = ast.UnaryOp(ast.Not(), node.test)
            yield "condition negated", new
        case ast.Call():
            yield from _of_call(node)
        case ast.Expr(ast.Constant() | ast.Yield()):
            return
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise():
            yield "statement deleted", None


def _children(node):
    for name, value in ast.iter_fields(node):
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield (name, i), child


def _sites(node, path):
    """(path, node) of all that may be changed below a node; texts, defaults and annotations are left alone.

    So is `strict` of zip: what is zipped has one length by construction.
    """
    aside = (
        () if isinstance(node, ast.Call) else ("decorator_list", "args", "annotation", "returns")
    )
    for step, child in _children(node):
        alone = isinstance(child, ast.JoinedStr) or getattr(child, "arg", "") == "strict"
        if step[0] not in aside and not alone:
            yield (*path, step), child
            if not (isinstance(child, ast.Raise) or getattr(child, "func", 0) and _called(child) == "warn"):  # fmt: skip
                yield from _sites(child, (*path, step))


def _named(node, path=(), prefix=""):
    """(name, path, node) of functions, methods and constants."""
    for step, child in _children(node):
        if isinstance(child, ast.ClassDef):
            yield from _named(child, (*path, step), f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield prefix + child.name, (*path, step), child
        elif isinstance(child, ast.Assign) and not prefix:
            yield ast.unparse(child.targets[0]), (*path, step), child


def _replaced(node, path, new):
    """A tree with another node at the end of a path; what lies off the path is shared."""
    if not path:
        return ast.copy_location(new or ast.Pass(), node)
    (name, i), changed, held = path[0], copy.copy(node), getattr(node, path[0][0])
    if i is None:
        setattr(changed, name, _replaced(held, path[1:], new))
    else:
        setattr(changed, name, [*held[:i], _replaced(held[i], path[1:], new), *held[i + 1 :]])
    return changed


def names_of(root, file):
    """Names of the functions, methods and constants of a module."""
    return [name for name, *_ in _named(ast.parse((root / file).read_text()))]


def function_at(tree, line):
    """The name of the innermost function, method or constant that a line is in."""
    return [n for n, _, node in _named(tree) if node.lineno <= line <= node.end_lineno][-1]


def mutants_of(root, file, patterns):
    """All mutants of a module: (its description, how far below its function's first line, the changed module's tree)."""
    tree = ast.parse((root / file).read_text())
    for name, above, definition in _named(tree):
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        count = Counter()
        for path, node in _sites(definition, above):
            for operator, new in changes(node):
                count[operator] += 1
                mark = f"{Path(file).stem}.{name}/{operator.replace(' ', '-')}-{count[operator]}"
                texts = [ast.unparse(x)[:160] for x in (node, new or ast.Pass())]
                said = [mark, f"{file}:{node.lineno}", name, operator, *texts]
                make = functools.partial(_replaced, tree, path, new)
                yield dict(zip(FIELDS, said, strict=True)), node.lineno - definition.lineno, make


def codes(code):
    """The code objects inside one, at any depth."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from codes(const)


def _same(one, two):
    return all(
        getattr(one, k) == getattr(two, k) for k in ("co_filename", "co_qualname", "co_firstlineno")
    )


def inject(path, name, tree):
    """Let a changed function, method or constant take the place of the old one, wherever it was imported."""
    gc.unfreeze()  # tests/conftest.py hides what was there before the first test
    module = next(m for m in [*sys.modules.values()] if getattr(m, "__file__", "") == str(path))
    code, objects = compile(ast.fix_missing_locations(tree), str(path), "exec"), gc.get_objects()
    if constants := [x for x in tree.body if ast.unparse(x).startswith(name + " =")]:
        space, old = dict(vars(module)), vars(module)[name]
        exec(compile(ast.Module(constants, []), str(path), "exec"), space)
        for other in [*sys.modules.values()]:
            if getattr(other, name, None) is old:
                setattr(other, name, space[name])
    else:
        new = next(c for c in codes(code) if c.co_qualname == name)
        for old in objects:
            if isinstance(old, types.FunctionType) and _same(old.__code__, new):
                old.__code__ = new
    for cached in objects:
        if isinstance(cached, functools._lru_cache_wrapper):
            cached.cache_clear()
