"""The exercises of the chapter in which the cost of attention is measured."""

from ._check import Check, Exercise
from ._judges import predictions

ROOFS = predictions(
    {"knee": 20.0, "share": 0.53, "d_head": 120, "faster": 1.875, "float16": "arithmetic"},
    {"knee": {
        0.05: "This is inverted: give operations per byte.",
        2e12: "Give operations per byte, not per second.",
        None: "At how many operations per byte do 2 · 10¹² operations and 10¹¹ bytes take one "
              "second each?"},
     "share": {
         10.67: "That is the intensity. Which share of 2 TFLOP/s does it allow?",
         53.3: "That is in percent; give a number from 0 to 1.",
         1.067: "That is in TFLOP/s. Which share of 2 TFLOP/s is it?",
         0.13: "d_head / 6 already accounts for four bytes per number.",
         1.0: "Left of the knee the full 2 TFLOP/s cannot be reached.",
         None: "The intensity is d_head / 6, so they reach at most d_head / 6 · 10¹¹ operations a "
               "second."},
     "d_head": {
         20: "That is the knee, in operations per byte. Which d_head has it?",
         3: "d_head / 6 is the intensity: it grows with d_head.",
         64: "At 64 memory is still the limit.",
         None: "Which d_head has an intensity at the knee?"},
     "faster": {
         0.53: "That is the present speed, as a share of 2 TFLOP/s.",
         20: "No program can exceed 2 TFLOP/s: how many times as fast is that?",
         6.0: "Traffic falls by more than that, but then arithmetic is the limit.",
         None: "Divide the speed that arithmetic allows by the one that memory allows now."},
     "float16": {
         "memory": "With half the bytes, the intensity doubles. On which side of the knee is it?",
         None: 'Answer "memory" or "arithmetic".'}},
    tolerance=0.01)

EXTRAPOLATED = predictions(
    {"linear": 0.5, "crossing": 1024.0, "slope": 1.585, "at 8192": 36.0},
    {"linear": {
        1.0: "Then 2048 tokens would take 2 s.",
        0.0: "Then 2048 tokens would take 4 s.",
        2 / 3: "With 2048 tokens, one part of the second is multiplied by 2 and the other by 4. "
               "Which two parts add up to 3 s then?",
        None: "Call the two parts at 1024 tokens A and B. With 2048 tokens they are 2 A and 4 B."},
     "crossing": {
         2048: "With 2048 tokens, the n² part takes 2 s and the other 1 s.",
         512: "With 512 tokens, the n² part takes 0.125 s and the other 0.25 s.",
         None: "At which length are a n and b n² equal? Compare the two parts at 1024 tokens."},
     "slope": {
         3.0: "That is the ratio of the seconds. The slope is the ratio of two logarithms.",
         2.0: "The slope between these two lengths is smaller: 2 is its limit for long texts.",
         1.5: "The slope is the logarithm of the ratio of the seconds, divided by that of the "
              "ratio of the lengths.",
         1.0986: "That is the logarithm of 3. Divide it by the logarithm of 2.",
         0.631: "This is inverted: the seconds are on the vertical axis.",
         None: "Divide the logarithm of 3 / 1 by the logarithm of 2048 / 1024."},
     "at 8192": {
         27.0: "That continues with the slope between 1024 and 2048 tokens. But the slope still "
               "grows.",
         64.0: "Only one of the two parts is multiplied by 8².",
         48.0: "Only one of the two parts at 2048 tokens is multiplied by 4².",
         8.0: "Only one of the two parts is multiplied by 8.",
         12.0: "Only one of the two parts is multiplied by 4.",
         None: "With 8192 tokens, one part of the time at 1024 tokens is multiplied by 8, and the "
               "other by 8²."}},
    tolerance=0.01)


check = Check({
    "under_the_roof": Exercise(ROOFS, (
        "The knee is the intensity at which both limits are equal: operations a second divided by "
        "bytes a second.",
        "The attention matrices have d_head / 6 = 10.7 operations a byte; the memory moves 10¹¹ "
        "bytes a second.",
        "Left of the knee, a program reaches intensity / knee of the highest speed. Fewer bytes a "
        "number mean more operations a byte."),
        "Left of the knee only fewer bytes help: narrower numbers, or attention matrices that "
        "never leave the cache. Right of it only fewer operations help."),
    "extrapolate": Exercise(EXTRAPOLATED, (
        "Call the two parts of the time at 1024 tokens A and B: A + B = 1, and 2 A + 4 B = 3.",
        "In a log–log plot, the slope between two points is the difference of the logarithms of "
        "the seconds, divided by that of the lengths.",
        "For 8192 tokens, multiply A by 8 and B by 64."),
        "A measured slope below 2 does not stay: the n² part takes over beyond the crossing. So a "
        "line through two short lengths predicts too little for a long one."),
})
