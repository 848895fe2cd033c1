// trf report: style and script of the page. See report.h.
//
// The page is one file: nothing is loaded. Without the script everything is there but the choices: the order of the
// lines, and which layer and head of the attention is drawn. The script makes no HTML of text: it moves elements, and
// writes text as text.

#ifndef TRF_REPORT_PAGE_H
#define TRF_REPORT_PAGE_H

static const char *const page_style[] = {
    ":root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--pale:#57606a;--line:#d0d7de;--mark:#0b5cad;"
    "--soft:#f4f6f8;--gone:#fde0dc;--new:#d9f2dd;--heat:#0b5cad}",
    "@media (prefers-color-scheme:dark){:root{--back:#14171c;--text:#e6e9ee;--pale:#a3abb6;--line:#3a424d;"
    "--mark:#7cb8ff;--soft:#1d2229;--gone:#5c2320;--new:#1d4428;--heat:#7cb8ff}"
    ".curve svg,.key svg{filter:invert(1) hue-rotate(180deg)}}",
    "*{box-sizing:border-box}",
    "body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}",
    "header,main,footer{max-width:76rem;margin:auto;padding:0 1rem}",
    "h1{font-size:1.6rem;margin:1.5rem 0 .5rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem}"
    "h3{font-size:1rem;margin:1.2rem 0 .4rem}",
    "p{margin:.5rem 0;max-width:48rem}small,.note,caption,figcaption{color:var(--pale);font-size:.85rem}",
    "a{color:var(--mark)}nav{display:flex;flex-wrap:wrap;gap:.2rem 1rem}",
    /* wide tables scroll inside their box */
    ".wide{overflow-x:auto;max-width:100%}",
    ":focus-visible{outline:2px solid var(--mark);outline-offset:2px}",
    "table{border-collapse:separate;border-spacing:0;font-size:.9rem;margin:.5rem 0}",
    "th,td{text-align:left;vertical-align:top;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);"
    "max-width:26rem;overflow-wrap:break-word}",
    "thead th{vertical-align:bottom;font-weight:600}tbody th{font-weight:500}",
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}thead .n{white-space:normal}",
    "td:last-child{min-width:9rem;max-width:40rem}td.n:last-child{min-width:0}",
    /* the name of a run stays in sight, and what stands behind a number goes below it */
    "#runs tbody th{position:sticky;left:0;background:var(--back)}#runs td small{display:block}"
    "#runs table{font-size:.85rem}",
    ".bar{display:block;height:.8rem;margin-top:.3rem;background:var(--mark);min-width:1px}",
    ".heat{background:color-mix(in srgb,var(--heat) calc(var(--w)*45%),transparent);padding-left:.7rem}",
    "details{margin:.8rem 0}summary{cursor:pointer;color:var(--mark)}",
    ".options{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:0 1.5rem;font-size:.85rem}",
    ".options div{display:flex;justify-content:space-between;gap:1rem;border-bottom:1px solid var(--line);"
    "padding:.15rem 0;min-width:0}",
    ".options dt{color:var(--pale);white-space:nowrap}.options dd{margin:0;text-align:right;overflow-wrap:anywhere;"
    "min-width:0}",
    ".curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));gap:.5rem 1rem}",
    ".curve{margin:0}.curve svg{display:block;width:100%;height:auto}",
    ".key,.tokens{list-style:none;margin:.5rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem}",
    ".key li{overflow-wrap:anywhere}.key path{fill:none}",
    ".tokens li{overflow-wrap:anywhere;background:var(--soft);padding:0 .4rem;border-radius:3px}",
    ".lines{list-style:none;margin:0;padding:0}",
    ".lines li{border-top:1px solid var(--line);padding:.6rem 0}",
    ".lines h3{margin:0 0 .2rem}.lines h3 span{color:var(--pale);font-weight:400;margin-left:.5rem}",
    ".lines dl{display:grid;grid-template-columns:6rem minmax(0,1fr);margin:0;gap:.1rem .5rem}",
    ".lines dt{color:var(--pale);font-size:.85rem}",
    ".lines dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap;max-height:20rem;overflow-y:auto;"
    "unicode-bidi:isolate}",
    "@media (max-width:36rem){.lines dl{grid-template-columns:minmax(0,1fr)}.lines dd{margin-bottom:.3rem}}",
    "del{background:var(--gone);text-decoration:line-through}ins{background:var(--new);text-decoration:underline}",
    ".odd{border:1px solid var(--pale);border-radius:3px;font-size:.75em;padding:0 .2em;direction:ltr;"
    "unicode-bidi:isolate;white-space:nowrap}.more{color:var(--pale)}",
    ".map{margin:1rem 0}.map[hidden]{display:none}.map svg{display:block;font:12px system-ui,sans-serif}",
    ".map text{fill:var(--text)}.map path{fill:var(--heat)}.map rect{fill:none;stroke:var(--line)}"
    ".map rect.here{stroke:var(--text);stroke-width:2}",
    ".choice label{color:var(--pale);font-size:.85rem}output{display:block;min-height:1.5em}",
    "select{font:inherit;max-width:100%;color:inherit;background:var(--back);border:1px solid var(--pale);"
    "border-radius:4px;padding:.2rem .4rem;margin-right:.6rem}",
    "@media print{.choice,nav{display:none}}"
};

static const char *const page_script[] = {
    "(function(){'use strict';",
    "var byId=function(id){return document.getElementById(id)};",
    /* the order of the lines */
    "var order=byId('order'),lines=byId('lines');",
    "if(order){order.parentNode.hidden=false;order.onchange=function(){",
    "  Array.prototype.slice.call(lines.children).sort(function(a,b){",
    "    return a.dataset[order.value]-b.dataset[order.value]})",
    "  .forEach(function(li){lines.appendChild(li)})}}",
    /* attention: the weights of a figure are two digits each */
    "var maps=Array.prototype.slice.call(document.querySelectorAll('.map'));if(!maps.length)return;",
    "var CELL=18,LETTER=8,SHADES=20,shown=null,",
    "names={cross:'of the decoder to the source',encoder:'of the encoder to itself',decoder:'of the decoder to itself'},",
    "pick={};['line','kind','layer','head','value'].forEach(function(k){pick[k]=byId('attend-'+k)});",
    "function svg(name,set,parent){",
    "  var e=document.createElementNS('http://www.w3.org/2000/svg',name),k;",
    "  for(k in set)e.setAttribute(k,set[k]);if(parent)parent.appendChild(e);return e}",
    "function texts(map,side){",
    "  var list=map.querySelector('ol.'+side);",
    "  return Array.prototype.map.call(list.children,function(li){return li.textContent})}",
    "function widest(list){return Math.max.apply(null,list.map(function(t){",
    "  return Array.from(t).reduce(function(n,c){return n+(c.codePointAt(0)>=0x1100?2:1)},0)}))}",
    "function fill(select,list,chosen){",
    "  select.textContent='';list.forEach(function(item){",
    "    var o=document.createElement('option');o.value=item[0];o.textContent=item[1];",
    "    if(String(item[0])===String(chosen))o.selected=true;select.appendChild(o)})}",
    "function layers(map,kind){return +map.dataset[kind==='encoder'?'encoderLayers':'decoderLayers']}",
    /* the weights that are chosen, row by row */
    "function weights(map,kind,layer,head,size){",
    "  var digits=map.dataset[kind],heads=+map.dataset.heads,out=[],i,h,w;",
    "  for(i=0;i<size;i++){w=0;for(h=0;h<heads;h++)if(head<0||h===head)",
    "    w+=+digits.substr(2*((layer*heads+h)*size+i),2)/100;out.push(head<0?w/heads:w)}",
    "  return out}",
    "function cells(group,w,columns){",
    "  var paths={},i,s;",
    "  for(i=0;i<w.length;i++){s=Math.round(w[i]*SHADES);",
    "    if(s)paths[s]=(paths[s]||'')+'M'+i%columns+' '+Math.floor(i/columns)+'h1v1h-1z'}",
    "  for(s in paths)svg('path',{opacity:s/SHADES,d:paths[s]},group)}",
    /* the square under the pointer, or where the arrow keys have led */
    "function point(x,y){",
    "  if(!shown)return;",
    "  x=Math.max(0,Math.min(shown.columns.length-1,x));y=Math.max(0,Math.min(shown.rows.length-1,y));",
    "  shown.x=x;shown.y=y;",
    "  shown.here.setAttribute('x',shown.left+x*CELL);shown.here.setAttribute('y',shown.top+y*CELL);",
    "  shown.here.removeAttribute('visibility');",
    "  pick.value.textContent='\\u2068'+shown.rows[y]+'\\u2069 \\u2192 \\u2068'+shown.columns[x]+'\\u2069: '+",
    "    shown.w[y*shown.columns.length+x].toFixed(2)}",
    "function draw(){",
    "  var map=maps[+pick.line.value],kind=pick.kind.value,layer=+pick.layer.value,head=+pick.head.value,",
    "    rows=texts(map,kind==='encoder'?'source':'written'),columns=texts(map,kind==='decoder'?'read':'source'),",
    "    left=12+LETTER*widest(rows),top=12+LETTER*widest(columns),",
    "    w=weights(map,kind,layer,head,rows.length*columns.length),",
    "    s=svg('svg',{width:left+columns.length*CELL+2,height:top+rows.length*CELL+2,tabindex:0,role:'img'}),g;",
    "  s.setAttribute('aria-label','Attention '+names[kind]+', layer '+(layer+1)+'; the arrow keys read its weights');",
    "  rows.forEach(function(t,i){",
    "    svg('text',{x:left-6,y:top+i*CELL+13,'text-anchor':'end'},s).textContent=t});",
    "  columns.forEach(function(t,i){",
    "    svg('text',{transform:'translate('+(left+i*CELL+13)+' '+(top-6)+')rotate(-90)'},s).textContent=t});",
    "  g=svg('g',{transform:'translate('+left+' '+top+')scale('+CELL+')'},s);cells(g,w,columns.length);",
    "  svg('rect',{x:left,y:top,width:columns.length*CELL,height:rows.length*CELL},s);",
    "  shown={rows:rows,columns:columns,w:w,left:left,top:top,x:-1,y:0};",
    "  shown.here=svg('rect',{'class':'here',width:CELL,height:CELL,visibility:'hidden'},s);",
    "  s.onpointermove=function(e){",
    "    var box=s.getBoundingClientRect(),x=Math.floor((e.clientX-box.left-left)/CELL),",
    "      y=Math.floor((e.clientY-box.top-top)/CELL);",
    "    if(x>=0&&y>=0&&x<columns.length&&y<rows.length)point(x,y)};",
    "  s.onkeydown=function(e){",
    "    var step={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]}[e.key];",
    "    if(step){e.preventDefault();point(shown.x+step[0],shown.y+step[1])}};",
    "  pick.value.textContent='';",
    "  map.querySelector('.wide').replaceChildren(s);",
    "  map.querySelector('figcaption').textContent='Line '+map.dataset.line+', attention '+names[kind]+': '+",
    "    (kind==='encoder'?'a row for each token of the source':'a row for each token that is written')+",
    "    (kind==='decoder'?', a column for each that the model reads':', a column for each that it attends to')+",
    "    '. Layer '+(layer+1)+', '+(head<0?'mean of all heads':'head '+(head+1))+'.';",
    "  maps.forEach(function(m){m.hidden=m!==map})}",
    "function choose(){",
    "  var map=maps[+pick.line.value],kind=pick.kind.value,n=layers(map,kind),list=[],layer=pick.layer.value,i;",
    "  for(i=0;i<n;i++)list.push([i,i+1]);",
    "  fill(pick.layer,list,layer!==''&&+layer<n?layer:n-1);draw()}",
    "(function(){",
    "  var map=maps[0],kinds=['cross','encoder','decoder'].filter(function(k){return map.dataset[k]}),",
    "    heads=[[-1,'mean of all']],i;",
    "  for(i=0;i<+map.dataset.heads;i++)heads.push([i,i+1]);",
    "  fill(pick.kind,kinds.map(function(k){return[k,names[k]]}),kinds[0]);fill(pick.head,heads,-1);",
    "  pick.line.onchange=pick.kind.onchange=choose;pick.layer.onchange=pick.head.onchange=draw;",
    "  byId('attend').hidden=false;choose()})();",
    "})();"
};

#endif
