import sys
from sim.substitutes import substituted
with substituted():
    from sim.simulation import simulate
    from sim.world import join_product
join_product()
import time
a,b=int(sys.argv[1]),int(sys.argv[2])
t=time.process_time(); n=st=rec=0
from collections import Counter
bad=Counter()
for s in range(a,b):
    o=simulate(s, traced=len(sys.argv)>3)
    n+=1; st+=o.steps; rec+=o.records
    if len(sys.argv)>3: print("\n".join(o.trace))
    if o.violation:
        bad[o.violation[:14]]+=1
        if bad[o.violation[:14]]<4: print(s,o.violation[:300])
print(n,"seeds",st,"steps",rec,"records",round(time.process_time()-t,2),"s",bad)
