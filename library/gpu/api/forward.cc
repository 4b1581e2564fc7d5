// The functions of the NCCL API that the GPU library passes on unseen.
#include "library/common/nccl/forward.h"

BUSBW_FORWARDED_FUNCTIONS(BUSBW_FORWARD)
