"""The stubs are true: each name is there, and takes the arguments that its stub says."""

import ast
import inspect
import pathlib

import longarm_kv
from longarm_kv import _longarm_kv

STUBS = pathlib.Path(longarm_kv.__file__).with_name("_longarm_kv.pyi")


def arguments(function):
    """The names of its arguments; those that a caller has to give by name come second."""
    spec = function.args
    return [name.arg for name in spec.posonlyargs + spec.args if name.arg != "self"], [name.arg for name in spec.kwonlyargs]


def real_arguments(function):
    kinds = inspect.signature(function).parameters.values()
    by_name = [parameter.name for parameter in kinds if parameter.kind == parameter.KEYWORD_ONLY]
    return [parameter.name for parameter in kinds if parameter.name not in ["self", *by_name]], by_name


def test_the_stubs_are_true():
    module = ast.parse(STUBS.read_text())
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef) and node.name != "Stats"}
    assert {"Table", "TaskTable", "LoopBridge", "Version", "KvError"} <= set(classes)
    for name, stub in classes.items():
        real = getattr(_longarm_kv, name)
        methods = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
        for method, node in methods.items():
            assert hasattr(real, method), f"{name}.{method}"
            if node.decorator_list and getattr(node.decorator_list[0], "id", "") == "property":
                continue
            if method.startswith("__"):
                continue
            assert arguments(node) == real_arguments(getattr(real, method)), f"{name}.{method}"
        if stub.bases == []:
            public = {attribute for attribute in vars(real) if not attribute.startswith("_")}
            assert public <= set(methods), f"{name} has no stub of {public - set(methods)}"
    opened = next(node for node in classes["Table"].body if getattr(node, "name", "") == "__init__")
    assert arguments(opened) == real_arguments(_longarm_kv.Table)


def test_the_module_has_a_stub_of_each_name():
    names = {node.name for node in ast.parse(STUBS.read_text()).body if isinstance(node, ast.ClassDef)}
    assert set(longarm_kv.__all__) - names == {"AsyncTable", "__version__"}


def test_the_figures_are_those_of_the_stub(table):
    stats = next(node for node in ast.parse(STUBS.read_text()).body if getattr(node, "name", "") == "Stats")
    assert [field.target.id for field in stats.body] == list(table.stats())
