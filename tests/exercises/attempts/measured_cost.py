"""Attempts at the exercises on measured costs."""

import math

ROOF = {"knee": 20, "share": 10.67 / 20, "d_head": 120, "faster": 1.875, "float16": "arithmetic"}
PREDICTED = {"linear": 0.5, "crossing": 1024, "slope": math.log2(3), "at 8192": 36}
RIGHT = {
    "under_the_roof": [ROOF, ROOF | {"share": 0.533, "d_head": 120.0, "float16": "Arithmetic"}],
    "extrapolate": [PREDICTED, PREDICTED | {"slope": 1.58, "at 8192": 36.0, "crossing": 1024.0}],
}
WRONG = {
    "under_the_roof": [
        (ROOF | {"knee": 0.05}, "This is inverted"),
        (ROOF | {"share": 10.67}, "That is the intensity"),
        (ROOF | {"share": 53.3}, "That is in percent"),
        (ROOF | {"share": 1.067}, "That is in TFLOP/s"),
        (ROOF | {"share": 0.13}, "already accounts for four bytes"),
        (ROOF | {"d_head": 20}, "That is the knee"),
        (ROOF | {"d_head": 64}, "At 64 memory is still the limit"),
        (ROOF | {"faster": 20}, "No program can exceed 2 TFLOP/s"),
        (ROOF | {"faster": 0.533}, "the present speed"),
        (ROOF | {"float16": "memory"}, "the intensity doubles"),
        (ROOF | {"float16": True}, "Write a string"),
    ],
    "extrapolate": [
        (PREDICTED | {"linear": 1}, "Then 2048 tokens would take 2 s"),
        (PREDICTED | {"linear": 0}, "Then 2048 tokens would take 4 s"),
        (PREDICTED | {"linear": 0.667}, "Which two parts add up to 3 s"),
        (PREDICTED | {"linear": 0.25}, "they are 2 A and 4 B"),
        (PREDICTED | {"crossing": 2048}, "the n² part takes 2 s"),
        (PREDICTED | {"crossing": 512}, "the n² part takes 0.125 s"),
        (PREDICTED | {"crossing": 1}, "At which length are a n and b n² equal?"),
        (PREDICTED | {"slope": 3}, "The slope is the ratio of two logarithms"),
        (PREDICTED | {"slope": 2}, "2 is its limit for long texts"),
        (PREDICTED | {"slope": 1.5}, "divided by that of the ratio of the lengths"),
        (PREDICTED | {"slope": math.log(3)}, "Divide it by the logarithm of 2"),
        (PREDICTED | {"slope": 1 / math.log2(3)}, "This is inverted"),
        (PREDICTED | {"at 8192": 27}, "But the slope still grows"),
        (PREDICTED | {"at 8192": 64}, "multiplied by 8²"),
        (PREDICTED | {"at 8192": 48}, "multiplied by 4²"),
        (PREDICTED | {"at 8192": 8}, "Only one of the two parts is multiplied by 8"),
        (PREDICTED | {"at 8192": 12}, "Only one of the two parts is multiplied by 4"),
        (PREDICTED | {"at 8192": 100}, "With 8192 tokens, one part"),
        (PREDICTED | {"at 8192": "36"}, "Write one number"),
    ],
}
