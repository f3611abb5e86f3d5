"""Why a wrong guess was tempting: one entry a prediction, so that no cell gives its answer away.

Keys are wrong guesses, numbers or words; values say where such a guess comes from.
"""

REASONS = {
    # 00
    "forgotten keepdim": {
        "error": "sizes that do not fit raise an error, but here T and D are both 8: they fit.",
        "same numbers": "without keepdim the statistic is (B, T), and broadcasting lines T up "
        "with the *features* of x.",
    },
    # 01
    "x times 100": {
        100: "the root mean square of x is 100 times larger too, and the layer divides by it.",
        10: "a root is taken of the mean square, 10,000 times larger; that is 100, and it cancels.",
        0.01: "dividing by 100 twice: the input grew by 100 first.",
    },
    "other tokens": {
        7: "7 is the number of *other* tokens in the batch, and each has a statistic of its own.",
        3: "3 is the number of other tokens in that sequence. A statistic over (T, D) would move "
        "them; this one is over D alone.",
    },
    "shift by 3": {
        0: "that is LayerNorm, which subtracts the mean; RMSNorm does not.",
        300: "the input moves by 3 times its size, but then it is divided by its new, larger size.",
        316: "√10 = 3.16 is the input's new size; the output is divided by it.",
    },
    # 02
    "length of y": {
        1: "dividing by ‖x‖ gives length 1. Here the divisor is the root of the *mean* square.",
        4: "4 is the sum of the squares; the length is its root.",
        6: "6 is the length of x.",
        3: "3 is the root mean square of x.",
    },
    "points of LayerNorm": {
        1: "nearly: centring leaves a sign. x₁ > x₂ and x₁ < x₂ end on opposite sides.",
        1000: "that would be RMSNorm, which keeps every direction. LayerNorm first puts all "
        "vectors on one line.",
    },
    "short token": {
        64: "that is the length at eps = 0; here the mean square, 1e-6, is ten times *smaller* "
        "than eps.",
        45.25: "that would be eps equal to the mean square; here eps is ten times larger.",
    },
    "gradient of 10x": {
        1: "the *output* does not change, but the same step turns a longer vector less.",
        10: "it goes the other way: the same step turns a longer vector less.",
        0.01: "one factor of 10 only: the output keeps its size, the input grows by 10.",
    },
}
