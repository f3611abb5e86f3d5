"""Why a wrong guess was tempting: one entry a prediction, so that no cell gives its answer away.

Keys are wrong guesses, numbers or words; values say where such a guess comes from.
"""

REASONS = {
    # 00
    "digits after 40 layers": {
        1: "nothing brings the size back between the layers.",
        2: "60 is 40 times 1.5, but the layers multiply: it is 1.5 to the power of 40.",
    },
    "300 in float16": {
        1: "that is what should come out. But 300² = 90000, and float16 ends at 65504.",
        300: "that would be dividing by 1.",
        float("inf"): "inf is the square; 300 is divided by its root.",
    },
    "forgotten keepdim": {
        "error": "sizes that do not fit raise an error, but here T and D are both 8: they fit.",
        "same numbers": "without keepdim the statistic is (B, T), and broadcasting lines T up "
        "with the *features* of x.",
    },
    # 01
    "x times 100": {
        100: "the RMS of x is 100 times larger too, and the layer divides by it.",
        10: "a root is taken of the mean square, 10,000 times larger; that is 100, and it cancels.",
        0.01: "dividing by 100 twice: the input grew by 100 first.",
        300: "300 is the RMS of the *input*, and the layer divides by it.",
        3: "3 is the RMS of x, the input; the output is what is left after dividing by it.",
    },
    "shape of the mean square": {
        "(2, 4)": "that is without keepdim: it would not broadcast back over the features.",
        "(2, 4, 8)": "nothing has been averaged there: these are the squares themselves.",
        "(2, 1, 8)": "that averages over the tokens, dim=-2; here it is over the features.",
        "(2, 1, 1)": "that is one number per sequence: an average over tokens and features.",
        "(1,)": "that is one number for the whole batch: mean() without dim.",
        "(8,)": "that is the shape of the weight, one number per feature.",
    },
    "divided by which token": {
        "(1, 2)": "that is the right token, which it would be with keepdim.",
        "(1, 3)": "nearly: the sequence's place is taken too, since all axes move by one.",
        "(3, 2)": "the other way round: the statistic's axes keep their order.",
        "(2, 1)": "the axes move by one, and so does the feature: 1, 2, 3 leaves 2 and 3.",
    },
    "other tokens": {
        7: "all the others, but each has a statistic of its own.",
        3: "the others of its sequence; but the statistic is over D alone, not over T and D.",
        2: "the later ones of its sequence, as in attention; a norm looks at one token only.",
        1: "the changed token itself is not counted here.",
        8: "all eight, but each has a statistic of its own.",
    },
    "shift by 3": {
        "LayerNorm": "the other one: LayerNorm subtracts the mean, and the 3 with it.",
        "both": "one of them, LayerNorm, subtracts the mean, and the 3 with it.",
        "neither": "one of them does not subtract the mean, and meets the 3.",
    },
    "numbers in RMSNorm(4096)": {
        1: "one number *per feature*: the model weighs each of them.",
        8192: "that is LayerNorm, with a bias beside the weight.",
        4096**2: "the weight multiplies feature by feature: it is a vector, not a matrix.",
        0: "without `weight` it would be none.",
    },
    # 02
    "length of y": {
        1: "dividing by ‖x‖ gives length 1. Here the divisor is the root of the *mean* square.",
        4: "4 is the sum of the squares; the length is its root.",
        6: "6 is the length of x.",
        3: "3 is the RMS of x.",
    },
    "points of LayerNorm": {
        1: "nearly: centring leaves a sign. x₁ > x₂ and x₁ < x₂ end on opposite sides.",
        4: "with two features only one sign is left after centring.",
        1000: "that would be RMSNorm, which keeps every direction. LayerNorm first puts all "
        "vectors on one line.",
    },
    "short token": {
        64: "that is the length at eps = 0; here the mean square, 1e-6, is ten times *smaller* "
        "than eps.",
        63.7: "m is the mean *square*: 0.001² is 1e-6.",
        5.82: "that is 64·m/(m + eps): a root is missing.",
        45.25: "that would be eps equal to the mean square; here eps is ten times larger.",
        20.24: "nearly: that leaves the mean square out beside eps, 1e-5 for 1.1e-5.",
        0.064: "that is the length of the token itself, before the norm.",
        0.001: "that is its RMS before the norm; the length is √n times an RMS.",
    },
    "gradient of 10x": {
        1: "the *output* is the same, but a step of one length turns a longer vector less.",
        10: "the other way: a step of one length turns a longer vector less.",
        0.01: "one factor of 10 only: the output keeps its size, the input grows by 10.",
        0: "it is zero only *along* x; sideways there is something left.",
    },
    # 03
    # 04
    # 05
    "gate doubled": {
        2: "that is what doubling *up* does. silu(4) is more than twice silu(2): σ grows as well.",
        1: "a sigmoid gate levels off near 1; silu does not, silu(g) is about g for large g.",
        1.115: "that is σ(4)/σ(2), a sigmoid gate; silu has the gate itself as a second factor.",
        4: "σ would have to double as well, but it is 0.88 already and stays below 1.",
    },
    "shape of the product": {
        "(2, 5, 8)": "that is D again, after down_proj.",
        "(2, 5, 24)": "that is gate and up side by side; they are multiplied, unit by unit.",
        "(2, 5, 12, 12)": "that multiplies each gate with each up; ⊙ multiplies unit by unit.",
        "(2, 5, 96)": "that is 8·12, the numbers in one matrix; a unit is one number per token.",
    },
    "mistakes that double": {
        8: "that is the shape test, which all eight pass.",
        0: "look at those where up stands alone as a factor: what became of the gate is hidden.",
        1: "nearly: there are more in which up stands alone as a factor.",
        2: "nearly: softmax, too, leaves up alone as a factor.",
        5: "those are the ones that it finds.",
    },
    "the last projection": {
        "w3": "third by number, but (11008, 4096) takes 4096 numbers in and gives 11008.",
        "w1": "(11008, 4096) is (out, in): it takes 4096 numbers in and gives 11008.",
    },
    "GLU with gate 0": {
        0: "that is SwiGLU, where 0·σ(0) is 0. A sigmoid alone is 1/2 at zero.",
        3: "σ(0) is not 1: that takes a large gate.",
        0.5: "that is σ(0), the share that passes.",
    },
    "ten times the token": {
        10: "each projection gives ten times as much, and then two of them are multiplied.",
        1000: "there are three projections, but only gate and up are multiplied with each other.",
        1: "only the norm before the layer takes a size away; the layer itself does not.",
        20: "gate and up are multiplied, not added.",
    },
    "matrices that learn": {
        3: "gate and up act through down_proj only: their gradient is a product with it.",
        2: "down_proj is the one that learns: its gradient needs gate and up, not itself.",
        0: "that takes two matrices of zeros; down_proj's gradient needs only the other two.",
    },
    # 06
    # 07
    # 08
    # 09
}
