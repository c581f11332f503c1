"""Arrays and streams of other libraries, checked before any kernel sees them. Fakes stand for the libraries."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pycomm.cuda import device_array, stream_handle
from pycomm.cuda.collective import checked_arrays
from pycomm.cuda.interface import is_default_stream
from pycomm.errors import UsageError


class FakeArray:
    def __init__(self, dtype: Any = None, **changes: Any) -> None:
        interface = {"shape": (4, 3), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": None}
        self.__cuda_array_interface__ = {k: v for k, v in {**interface, **changes}.items() if v != "absent"}
        if dtype is not None:
            self.dtype = dtype


class FakeStream:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        return self.answer


def test_an_array_is_read_from_its_interface() -> None:
    array = device_array(FakeArray(stream=7), "send")
    assert (array.address, array.count, array.dtype, array.writable, array.stream) == (4096, 12, "float32", True, 7)
    assert array.bytes == 48


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [("<f8", "float64"), ("<f2", "float16"), ("<i8", "int64"), ("<i4", "int32"), ("|i1", "int8"), ("|u1", "uint8")],
)
def test_every_type_of_the_interface_is_known(typestr: str, dtype: str) -> None:
    assert device_array(FakeArray(typestr=typestr), "send").dtype == dtype


def test_bfloat16_is_known_by_the_array_and_not_by_two_bytes() -> None:
    assert device_array(FakeArray(np.dtype(ml_dtypes.bfloat16), typestr="<V2"), "send").dtype == "bfloat16"
    assert device_array(FakeArray("torch.bfloat16", typestr="<f2"), "send").dtype == "bfloat16"
    for typestr in ("<u2", "<V2"):
        with pytest.raises(UsageError, match="send has dtype"):
            device_array(FakeArray(typestr=typestr), "send")


def test_strides_of_a_contiguous_array_are_taken() -> None:
    assert device_array(FakeArray(strides=(12, 4)), "send").count == 12
    assert device_array(FakeArray(shape=(1, 3), strides=(999, 4)), "send").count == 3
    assert device_array(FakeArray(shape=(0, 3), strides=(1, 1), data=(0, False)), "send").count == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": "absent"}, "lacks 'shape'"),
        ({"data": "absent"}, "lacks 'data'"),
        ({"version": 1}, "version 1, needs 2 or 3"),
        ({"version": True}, "version True"),
        ({"shape": [4, 3]}, r"shape \[4, 3\], needs a tuple"),
        ({"shape": (4, -1)}, "whole numbers"),
        ({"typestr": "<c8"}, "send has dtype complex64"),
        ({"typestr": ">f4"}, "send has dtype float32"),
        ({"typestr": "rubbish"}, "which is no type"),
        ({"strides": (4, 16)}, r"strides \(4, 16\) and shape \(4, 3\), needs a contiguous array"),
        ({"data": 4096}, "needs \\(address, read only\\)"),
        ({"data": (0, False)}, "12 elements at address 0"),
        ({"data": (4098, False)}, "0x1002, needs a multiple of the 4 bytes of float32"),
        ({"mask": object()}, "is masked"),
        ({"stream": 0}, "stream 0, needs None or a number from 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_found_and_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        device_array(FakeArray(**changes), "send")


def test_a_numpy_array_is_refused_by_its_type() -> None:
    with pytest.raises(UsageError, match="rank 0 of 1: send is a ndarray, needs a GPU array"):
        device_array(np.zeros(3), "rank 0 of 1: send")


def test_send_and_receive_must_agree() -> None:
    send = FakeArray()
    assert checked_arrays("here", send, send)[0].address == 4096
    for receive, message in [
        (FakeArray(data=(8192, True)), "receive is read-only"),
        (FakeArray(data=(8192, False), typestr="<i4"), "receive has dtype int32, needs float32"),
        (FakeArray(data=(4096 + 16, False)), "overlap in part"),
    ]:
        with pytest.raises(UsageError, match=message):
            checked_arrays("here", send, receive)


def test_a_stream_gives_its_handle() -> None:
    assert stream_handle(None) == 0
    assert stream_handle(FakeStream((0, 123456))) == 123456


@pytest.mark.parametrize("answer", [(1, 5), (0,), [0, 5], 5, (0, None), (0, -1), (False, 5)])
def test_a_stream_with_another_answer_is_refused(answer: Any) -> None:
    with pytest.raises(UsageError, match="__cuda_stream__"):
        stream_handle(FakeStream(answer))


def test_a_bare_number_is_no_stream() -> None:
    with pytest.raises(UsageError, match="stream is a int, needs an object with __cuda_stream__"):
        stream_handle(7)


def test_default_streams_are_known() -> None:
    assert [is_default_stream(handle) for handle in (0, 1, 2, 3)] == [True, True, True, False]
