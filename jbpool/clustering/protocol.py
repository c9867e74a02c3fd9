"""What scikit-learn asks of estimators, without its base class: importing that takes as long as half of torch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sklearn.utils import Tags  # of scikit-learn 1.6, which first asks for it

E = TypeVar("E", bound="Clusterer")


class WithModel:
    """A method that an estimator has only if there is a model for other graphs."""

    def __init__(self, method: Callable[..., Any]):
        self.method = method
        functools.update_wrapper(self, method)                          # type: ignore[arg-type]

    def __get__(self, model: Clusterer | None, kind: type) -> Callable[..., Any]:
        if model is None:
            return self.method
        if hasattr(model, "labels_") and model.model_ is None:
            raise AttributeError(
                "JBClustering has no predict here: there is no model for other graphs, since the graph has no "
                "features, or there is only one cluster. (To choose the number of clusters, fit with a range, "
                "n_clusters=(2, 12), not with GridSearchCV.)"
            )
        return MethodType(self.method, model)


class Clusterer:
    """Parameters, text and tags of an estimator of clusters, which finds ``labels_`` and maybe ``model_``."""

    model_: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` has no effect."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: E, **params: Any) -> E:
        """Change parameters; they take effect with the next ``fit``."""
        for name, value in params.items():
            if name not in self.get_params():
                has = ", ".join(self.get_params())
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {has}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name]]
        return f"{type(self).__name__}({', '.join(given)})"

    _estimator_type = "clusterer"                   # for scikit-learn before 1.6; __sklearn_tags__ for later ones

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        accepted = InputTags(pairwise=True, sparse=True, positive_only=True)
        return Tags("clusterer", TargetTags(required=False), input_tags=accepted)   # deterministic for a random_state

    def _check_fitted(self) -> None:
        if not hasattr(self, "labels_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
