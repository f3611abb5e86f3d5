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
    # 06
    # 07
    # 08
    "last feature of the block": {
        20: "that is 5 + 3·5: the feed-forward network reads the *normalised* token, 5/3.",
        5: "that is one of two terms: 5 goes on along the stream, and 3·5/3 is added to it.",
        8: "that is 5 + 3·1: the second norm reads the stream *after* attention has added to it.",
        6.67: "that is 5/3 + 5: the stream itself is not normalised.",
        1.67: "that is 5/3, what the feed-forward network reads.",
        15: "that is 3·5: neither the norm nor the sum is in it.",
    },
    "logits of 10 times the embeddings": {
        10: "zero blocks do hand 10·x on, but one norm comes after them.",
        0.1: "dividing once too often: the last norm brings 10·x and x to one size.",
        0: "zero blocks add zeros; the stream passes them by.",
        100: "the factor of 10 is there once at most, and the last norm takes it out.",
    },
    "blocks to a million": {
        35: "that is growth by a constant factor of 1.5, as in notebook 00. Here a block does not "
        "multiply the RMS by a constant.",
        20: "that is doubling in each block. Here the *factor* grows from block to block.",
        14: "nearly: a constant factor of 2.7 would do so. Here the factor grows.",
        6: "nearly: it is past a million one block earlier.",
        4: "nearly: four blocks bring it to tens of thousands.",
    },
    "stream from 12 to 48 blocks": {
        4: "four times as many terms; but they point in different directions, and then their "
        "*squares* add up.",
        1: "that holds for what each sublayer reads. The stream itself is not normalised.",
        36: "that is one step of 1 for each block, all in one direction.",
        16: "four squared; it is the other way, a root.",
    },
    "larger gradient in the last block": {
        "pre": "its stream is longer, but the last norm divides by that length, and the gradient "
        "with it.",
        "neither": "so it is with weights near zero; these are not.",
    },
    "norms in Llama-2-7B": {
        "64": "two in each block, and one is missing.",
        "32": "each block has two, and that is not all.",
        "33": "one after the blocks is right, but each block has two.",
        "66": "one stands after the blocks, but none before them.",
        "96": "each block has two: attention has none of its own in Llama 2.",
    },
    # 09
}
