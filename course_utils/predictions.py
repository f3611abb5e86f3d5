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
    "first overflow": {
        300: "notebook 00 took 300, but the edge comes before it: the root of the largest number.",
        65504: "that is the largest number itself; here its *square* must fit.",
        65505: "that is past the largest number itself; here the *square* must fit.",
        1024: "whole numbers are exact up to 2048, but here their squares must fit below 65504.",
        2048: "up to there whole numbers are exact; their squares end much earlier.",
    },
    "left beside a 256": {
        4096: "256² is 65536, more than float16 can hold: the mean square becomes inf.",
        4095: "all features share one divisor: what overflows in it divides them all.",
        1: "the 256 itself is divided by the same inf as the others.",
    },
    "late upcast": {
        1: "that would be right, but 300² is taken in float16: it is inf before it is cast.",
        300: "that would be dividing by 1.",
        float("inf"): "inf is the square; one over its root multiplies 300.",
    },
    "promotion": {
        "b": "one more: neither of float16 and bfloat16 holds the other's numbers.",
        "c": "one more: a vector of float32 counts, whatever it holds.",
        "ab": "a Python number has no dtype of its own to impose; and look at c again.",
        "bd": "a tensor without dimensions counts like a Python number; and look at c again.",
        "abd": "single numbers, in a tensor or not, leave x alone; and look at c again.",
        "bcd": "nearly: a tensor without dimensions counts like a Python number.",
        "abc": "nearly: a Python number leaves the tensor's dtype alone.",
        "abcd": "single numbers, in a tensor or not, leave x alone.",
    },
    "L equals F": {
        100: "that is with weight one. Otherwise L rounds twice, and F once.",
        50: "the second rounding of L changes fewer than that.",
        0: "most outputs round to the same number, once or twice.",
        99: "that is a spread of about 0.001, where nearly all weights still round to one.",
    },
    "float32 weight": {
        "float32": "that is L, whose last step is a product. PyTorch is of family F.",
        "error": "nearly: it warns, and goes on.",
    },
    "caller after float": {
        1: "so it would be in bfloat16. But for float32 `.float()` has nothing to do, and returns "
        "x itself.",
        9: "it is multiplied once.",
    },
    "counting in bfloat16": {
        1000: "that would be so in float32; bfloat16 has steps of 2 from 256 on.",
        999: "the steps are coarser than that: 2 from 256 on.",
        128: "there the step is still 1.",
        512: "there the step is 4; it is 2 already from 256 on, and 256 + 1 rounds back.",
        float("inf"): "bfloat16 reaches as far as float32; it is the digits that run out.",
    },
    # 04
    "smallest SiLU": {
        -4: "that is where a rising curve would be lowest. This one comes back up towards zero.",
        -2: "nearly: silu(−2) is −0.238. Further right there is a lower one.",
        -0.5: "nearly: silu(−0.5) is −0.189. Further left there is a lower one.",
    },
    "SiLU of -5": {
        -4.967: "that would be an odd function, as tanh is; σ(−5) is not σ(5) but 1 − σ(5).",
        4.967: "that would be an even function; x keeps its sign, and σ is always above zero.",
        0: "that would be ReLU; σ(−5) is small, but above zero.",
        0.033: "nearly: σ(−5) is above zero, and it multiplies −5.",
        -0.03: "nearly: it is 4.967 − 5, and wants three decimals.",
        0.0067: "that is σ(−5), which still multiplies −5.",
        -5: "that would let all of x through; σ(−5) is small.",
    },
    "slope at zero": {
        1: "that is the slope of x alone, and x is multiplied by σ(0).",
        0.25: "that is the slope of σ, which is multiplied by x, here zero.",
        0: "the curve is zero there, and rising.",
        0.75: "that is σ + σ(1 − σ); its second term is multiplied by x, here zero.",
    },
    "gate of 5": {
        3: "that is a gate fully open, at 1. silu(5) is 4.97: it is no share, and can amplify.",
        2.98: "that is σ(5)·3, a share of 3; silu multiplies by the gate itself too.",
        5: "that is about silu(5); the other number multiplies it.",
        8: "they are multiplied, not added.",
    },
    "minimum for β = 2": {
        -0.557: "that is twice SiLU's minimum. A steeper σ closes sooner, and lets less through.",
        -0.2785: "that is SiLU's own: β is inside σ, and changes the curve.",
        -0.0696: "that divides by 2 twice: the curve is SiLU's, half as wide and half as high.",
        0: "that is ReLU's, for β without end.",
    },
    "gradient of the quotient": {
        "0": "that is what it should be. But autograd goes through exp(100), which is inf.",
        "inf": "inf is exp(100) on the way; it is multiplied by a zero.",
        "-inf": "inf is exp(100) on the way; it is multiplied by a zero.",
        "1": "that is the slope far to the right of zero.",
        "error": "autograd raises nothing for inf.",
    },
    "SiLU in place": {
        3.523: "that is silu(2) · 2. But the 2 is gone: in place means that g itself is changed.",
        1.762: "that is silu(2), the new g. It multiplies g, which is the same tensor.",
        4: "that is 2 · 2, without SiLU.",
    },
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
    "width for 288": {
        24: "three matrices of that width have 3·6·24 = 432.",
        12: "half the width is too little: a third matrix came, the two others did not double.",
        18: "three quarters of 24; but three matrices share what two had, so it is two thirds.",
        8: "a third of 24; but the third matrix takes a third away, and two thirds are left.",
        4: "that is 2/3 of 6; it is 2/3 of 4·6.",
        15: "nearly: 16 fits too, without a remainder.",
        17: "one too wide: 3·6·17 is 306.",
    },
    "width at 5120": {
        13568: "that is the nearest multiple of 256; the rule goes up.",
        13653: "not yet a multiple of 256.",
        13909: "that adds 256; the rule goes to the next multiple.",
        11008: "that is the width at 4096.",
        20480: "that is 4·D, with no third matrix to make room for.",
    },
    "width without multiplier": {
        14336: "that is Llama-3-8B's own. It is not 10922 rounded: the multiplier came before.",
        10922: "not yet a multiple of 1024.",
        10240: "that rounds down, and the rule goes up.",
        11008: "that is the next multiple of 256; here it is 1024.",
        16384: "that is 4·4096, with no third matrix to make room for.",
    },
    "width of 70B": {
        24576: "that rounds down, or leaves the multiplier out.",
        28398: "not yet a multiple of 4096.",
        28416: "that is the next multiple of 256; this model's multiple is 4096.",
        31948: "that multiplies after the rounding, and is no multiple of 4096.",
        12288: "that multiplies D itself by 1.3; it is 8·D/3 that is multiplied.",
        45056: "that multiplies 4·D by 1.3; it is 8·D/3 that is multiplied.",
    },
    "widths that a rule fits": {
        0: "the rule was not made for them, but it has two free numbers.",
        41: "nearly: a few lie too far from every multiple.",
        9: "nine is the number of documented ones.",
        17: "that is with no multiplier at all.",
        29: "that is with the multiple 256 alone.",
    },
    "per cent in the FFN": {
        66.6: "8·D² of the layer's 12·D², but there are embeddings too.",
        33.3: "that is about attention's part.",
        50: "as if attention and FFN were equal; attention has 4·D², the FFN 8·D².",
        75: "that would be an FFN of 12·D², with three matrices of width 4D.",
        100: "attention and embeddings have parameters too.",
    },
    # 07
    "second hidden number": {
        2.69: "that is σ(−1)·10; silu has the gate itself, −1, as a factor too.",
        -10: "that is gate·up, without SiLU.",
        0: "that is ReLU, which shuts at −1; silu lets a little through.",
        28.58: "that pairs neighbours, (2, −1) and (3, 10); gate is the first *half*.",
        5.28: "that is the first, silu(2)·3.",
    },
    "chunked tokens": {
        "(4, 32, 176)": "that is dim=-1, which splits the features.",
        "(2, 32, 352)": "that is dim=0, which splits the batch.",
        "(4, 2, 352)": "two is the number of pieces, not the size of one.",
        "(4, 16, 176)": "one axis is cut, not two.",
    },
    "five into four": {
        4: "four pieces would have the sizes 2, 1, 1, 1; chunk makes all but the last one alike.",
        5: "that would be pieces of one number each; 5/4 is rounded up.",
        2: "pieces of four and one would be `split(4)`: there the number is the size of a piece.",
        1: "chunk cuts here, into pieces of 5/4, rounded up.",
    },
    "gate set to zero": {
        14: "that is the sum before: it would stay if gate were a copy.",
        0: "that would be all of gate_up; up is another part of it.",
        1: "that is what gate added to it; it is the part that is gone.",
    },
    "gate of F.glu": {
        "first": "that is the order of most Llama code, and F.glu is older.",
    },
    "swapped halves": {
        "under 10 %": "that is so where σ(gate) and σ(up) are nearly equal, near zero.",
        "over 100 %": "unrelated outputs are further apart; but gate·up is in both.",
    },
    "gate rows on rank 0": {
        88: "that is what it should have. The first 176 rows of [gate; up] are something else.",
        352: "that is all rows of the fused weight.",
        0: "that is rank 1: it has all of up.",
    },
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
    "projection against norm": {
        11008: "that is two operations a feature for RMSNorm; it has four: square, add, · 1/RMS, "
        "· weight.",
        22016: "that is a projection's operations for each feature; RMSNorm has four, not one.",
        2752: "that leaves out the additions of the projection: it multiplies and adds.",
        4096: "both have 4096 features: they cancel.",
    },
    "three forms": {
        "(2, 2, 2)": "2 is the least possible; but a call hands its result to the next through "
        "memory, and the first two make several.",
        "(4, 3, 1)": "that is how many calls pass over x; all of them read, and most also write.",
        "(7, 7, 7)": "vector_norm writes no x² for a mean to read, and LayerNorm is one call.",
        "(7, 5, 7)": "nearly: LayerNorm computes more, but in one call, which keeps a token "
        "in the processor.",
        "(7, 7, 2)": "vector_norm writes no x², and so nothing has to read it.",
        "(8, 6, 2)": "nearly: the mean and vector_norm write one number a token, next to nothing.",
        "(8, 7, 2)": "nearly: the mean and vector_norm write one number a token, next to nothing.",
    },
    "tokens to the ridge": {
        20: "nearly: so it would be if x and the result moved for nothing.",
        10: "a token does two operations for each weight of four bytes: half an operation a byte.",
        5: "the other way round: half an operation a byte for a token, so 10/0.5.",
        40: "float32 has four bytes a weight, and a token does two operations with it: a half.",
    },
    "gate_proj for one token": {
        "arithmetic": "there is much of it, but one token uses each weight once: two operations "
        "for four bytes, far below ten a byte.",
    },
    "tiles saved": {
        1: "85 tiles are full; a third of one is left, and a part of a tile takes a whole one.",
        86: "that is the difference in columns, and the tiles of each; not the tiles saved.",
    },
    # 10
    "parameters of the tiny Llama": {
        492384: "the head is the embedding once more: the same numbers, counted once.",
        443232: "that is without the embedding, 256 rows of 96.",
        320352: "that is without attention: four matrices of D² in each block.",
        369504: "that has two matrices in each FFN; SwiGLU has three.",
        344928: "that has two matrices in each FFN, where SwiGLU has three, and no embedding.",
        615264: "that is SwiGLU at the width of a plain network, 4·D; here I is 8/3 of D.",
        466944: "nearly: the norms have weights too, nine times 96.",
        467712: "nearly: one more norm stands behind the blocks.",
    },
    "loss before training": {
        "same": "that would be a model without an opinion. Random weights have one: some "
        "byte's embedding is most like what is in the stream.",
        "lower": "it has an opinion before it has read anything, and not a good one.",
    },
    "gated below plain": {
        "4": "one gated network does worse than every plain one: a sigmoid opens it.",
        "2": "two of them are GEGLU and SwiGLU; with a gate opened by the plainest of functions "
        "it works too.",
        "1": "no single one is alone: its relations do as well, or nearly.",
        "0": "at equal cost the product of two projections does beat one, with most gates.",
    },
    "norm that ends lowest": {
        "RMSNorm before": "that is what large models have, for depth and for safety; four "
        "layers at their best rate need neither.",
        "LayerNorm before": "it is a little below RMSNorm, by less than eight seeds can settle.",
        "RMSNorm after": "it is a little below RMSNorm before, by less than eight seeds can "
        "settle.",
        "LayerNorm after": "it is a little below RMSNorm before, by less than eight seeds can "
        "settle.",
    },
    "negative gates": {
        0.5: "so it was with random weights; training has moved them.",
        0.3: "the other way round: that is nearly the share that is open.",
        0.9: "not that many: a unit is open for about one byte in three or four.",
    },
    "fails without warm-up": {
        "before": "that place is the one that bears a hard start: the stream passes by the norms.",
        "no norm": "at this rate it can do without. At 16/1000 it fails, with warm-up or not.",
    },
    "silent mistakes": {
        0: "surely a mistake shows somewhere? Most change too little, or what training can mend.",
        2: "that is how many the shapes catch.",
        17: "that forgets those which shapes catch.",
        20: "so it would be if only the shapes caught any; some do train visibly worse.",
        22: "shapes catch some, and the loss does see some.",
    },
}
